/** The CMS-item format of site builders: hyphenated fields, and two that every item must have. */
import { createHash } from 'node:crypto';
import { nameOf } from '#catalog/document.ts';
import type { Document, Property } from '#hypermedia/document.ts';
import type { EventRow } from '../event-sql.ts';
import { Flat, membersOf } from './flat.ts';

/** The allowed characters of an item's URL segment. */
const SLUG = /^[\w-]{1,256}$/;
const HASH_CHARACTERS = 8;

/** Returns a slug unique per resource; names could collide. An id with other characters gets a hash appended. */
function slugOf({ type, resourceId }: EventRow): string {
  const plain = resourceId.replaceAll(/[^\w-]+/g, '-');
  const hash = createHash('sha256').update(resourceId).digest('hex').slice(0, HASH_CHARACTERS);
  return `${type.replaceAll('_', '-')}-${plain === resourceId ? plain : `${plain}-${hash}`}`;
}

const isName = ({ name, value }: Property): boolean =>
  name === 'name' && typeof value === 'string' && value.trim() !== '';
const isSlug = ({ name, value }: Property): boolean => name === 'slug' && typeof value === 'string' && SLUG.test(value);

/** Returns the item; `name` and `slug` come from the publisher if valid, otherwise they are generated. */
export function siteItemText(document: Document, event: EventRow): string {
  const { properties } = document;
  const name = properties.find(isName)?.value ?? nameOf({ type: event.type, id: event.resourceId });
  const slug = properties.find(isSlug)?.value ?? slugOf(event);
  const fields = new Flat('-');
  fields.add('name', JSON.stringify(name));
  fields.add('slug', JSON.stringify(slug));
  const others = properties.filter((property) => !isName(property) && !isSlug(property));
  fields.addAll(membersOf({ ...document, properties: others }));
  return `{"fieldData":${fields.text()},"isArchived":false,"isDraft":false}`;
}
