import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import type { SampleEvent } from './sample.ts';

/**
 * Inserts a test event, which belongs to no resource: it creates no version and is in no chain. Returns whether the store
 * exists; the store is locked until the transaction ends, so that its erasure deletes this event too.
 */
export async function insertSample(sql: Queryable, event: SampleEvent, shard: number): Promise<boolean> {
  const { id, storeId, type, resourceId, action, version, nonce, timeZone, baseUrl, dateCreated, body } = event;
  const { count } = await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select s.shard, ${id}, s.id, ${type}, ${resourceId}, ${action}, ${version}, ${nonce}, ${timeZone}, ${baseUrl},
      ${dateCreated}, ${body}
    from store s
    where s.shard = ${shard} and s.id = ${storeId}
    for key share of s`;
  return count === 1;
}

/**
 * Inserts a delivery for the pull client of the webhook, even if the webhook is disabled. Returns its id; undefined if there is
 * no such pull webhook.
 */
export async function insertPullSample(
  sql: Queryable,
  { shard, webhookId, event, day }: { shard: number; webhookId: number; event: SampleEvent; day: number },
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    select w.shard, ${nextDeliveryId(sql, day, sql`w.shard`)}, w.store_id, w.id, w.epoch,
      ${event.id}, 'infinity'
    from webhook w
    where w.shard = ${shard} and w.id = ${webhookId} and w.is_held
    returning id`;
  return row?.id;
}
