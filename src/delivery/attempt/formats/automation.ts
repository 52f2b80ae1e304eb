/** The REST-hook format of workflow-automation platforms: one flat object from which users pick fields. */
import type { Document } from '#hypermedia/document.ts';
import type { EventRow } from '../event-sql.ts';
import { Flat, membersOf } from './flat.ts';

/** `id` and `event` come first and keep these names whatever else is published: platforms identify items by `id`. */
export function automationText(document: Document, event: EventRow): string {
  const id = document.properties.find(({ name }) => name === 'id')?.value ?? event.resourceId;
  const properties = document.properties.filter(({ name }) => name !== 'id');
  const flat = new Flat('_');
  flat.add('id', JSON.stringify(id));
  flat.add('event', JSON.stringify(`${event.type}/${event.action}`));
  flat.addAll(membersOf({ ...document, properties }));
  return flat.text();
}
