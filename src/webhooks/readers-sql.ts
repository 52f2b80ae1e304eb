/** The statement that lists the readers of a type. */
import type { Queryable } from '#db/pool.ts';

/** A webhook with what it reads of resources. */
export type ReadingWebhook = {
  shard: number;
  id: number;
  storeId: number;
  name: string;
  isActive: boolean;
  events: string[];
  query: string | null;
  filter: string | null;
};

/** Returns the next webhooks that get events of this type, in the order of shards and ids. */
export function listReading(
  sql: Queryable,
  { type, after, limit }: { type: string; after: { shard: number; id: number }; limit: number },
): Promise<ReadingWebhook[]> {
  return sql<ReadingWebhook[]>`
    select w.shard, w.id, w.store_id as "storeId", w.name, w.is_active as "isActive", w.events, w.query, w.filter
    from webhook w where w.event_resource = ${type} and (w.shard, w.id) > (${after.shard}, ${after.id})
    order by w.shard, w.id limit ${limit}`;
}
