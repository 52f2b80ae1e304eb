/** Sends `customer/erased` to the webhooks that may have got data of a customer, in the transaction that erases the customer. */
import { ERASED, typeOfRelation } from '#catalog/catalog.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import { storedShape } from '#catalog/resource-document.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import type { InternalEventDeps } from '../publish/internal-event.ts';
import { nextNonce, numberAt } from '../publish/rows.ts';
import { insertErasureEvent, listReaders } from './erased-customer-sql.ts';

/** Returns whether `zoom` selects a customer, at any depth. */
function embedsCustomer(zoom: Relations): boolean {
  return Object.entries(zoom).some(([rel, nested]) => typeOfRelation(rel) === 'customer' || embedsCustomer(nested));
}

/**
 * Writes the event with the next version of the customer, and a delivery for each active webhook for customers, whatever it subscribes
 * to, and for each whose `query` embeds customers. Which webhooks got an event of this customer is known for the time of retention
 * only, so webhooks that got none are included. `publishedId` is the id as JSON text. Returns the id of the event.
 */
export async function sendErasure(
  tx: Queryable,
  key: ResourceKey,
  { publishedId, version, now }: { publishedId: string; version: number; now: Date },
  { allocateIds, baseUrl, announce }: InternalEventDeps,
): Promise<number> {
  const { shard, storeId, type, id: resourceId } = key;
  const day = dayOf(now);
  const numbers = await allocateIds(tx, { day, shards: [shard] }, 'inTransaction');
  const id = dailyIdOf(day, numberAt(numbers, 0), shard);
  const event = { id, action: ERASED, version, nonce: nextNonce(), baseUrl, body: `{"id":${publishedId}}` };
  const readers = (await listReaders(tx, key)).filter(
    (webhook) => webhook.type === type || embedsCustomer(storedShape(webhook.query ?? '', webhook.type).zoom),
  );
  const readerIds = readers.map((webhook) => webhook.id);
  const deliveries = await insertErasureEvent(tx, key, { ...event, day, now }, readerIds);
  const sent = { ...event, type, resourceId, dateCreated: now, traceContext: null };
  await announce(
    tx,
    deliveries.map((delivery) => Object.assign({ shard, storeId, dueAt: now, event: sent }, delivery)),
  );
  return id;
}
