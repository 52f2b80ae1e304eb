/**
 * CloudEvents 1.0.2: the attributes of an event beside its data (JSON Event Format §2), or as headers (HTTP Protocol
 * Binding §3.1).
 */
import { collectionOf } from '#catalog/catalog.ts';
import type { EventRow } from '../event-sql.ts';

/** Not the media type of the representation, which the CloudEvents SDK for JavaScript leaves as text in binary mode. */
export const DATA_TYPE = 'application/json';

/**
 * Returns the attributes of an event, the same for all webhooks and retries: receivers may drop an event whose `source` and `id` they
 * have seen (§3.1.1). The nonce makes the id differ from one that is allocated again after a restore from a backup.
 */
function attributesOf({ id, nonce, baseUrl, storeId, type, action, resourceId, version, dateCreated }: EventRow) {
  return {
    specversion: '1.0',
    id: `evt_${id.toString(36)}_${nonce.toString(36)}`,
    source: `${baseUrl}/stores/${storeId}`,
    type: `${type}/${action}`,
    subject: `${collectionOf(type)}/${encodeURIComponent(resourceId)}`,
    time: dateCreated.toISOString(),
    resourceversion: version,
  };
}

/** Returns the event in structured mode: `data` is the JSON text of the representation. */
export function cloudEventText(event: EventRow, data: string): string {
  const attributes = JSON.stringify({ ...attributesOf(event), datacontenttype: DATA_TYPE });
  return `${attributes.slice(0, -1)},"data":${data}}`;
}

/** HTTP Protocol Binding §3.1.3.2. */
const encoded = (text: string): string =>
  text.replaceAll(/[^\x21-\x7e]|["%]/gu, (character) => encodeURIComponent(character));

/** Returns the headers of binary mode, names and values alternating; the body is the representation. */
export function cloudEventHeaders(event: EventRow): string[] {
  return Object.entries(attributesOf(event)).flatMap(([name, value]) => [`ce-${name}`, encoded(String(value))]);
}
