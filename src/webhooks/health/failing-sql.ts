/** SQL that finds the webhooks of a database whose endpoints fail now. */
import type { Queryable } from '#db/pool.ts';

export type FailingRow = {
  shard: number;
  id: number;
  name: string;
  storeId: number;
  storeName: string;
  /** The internal id of the app that created it; null if a person did. */
  client: number | null;
  url: string | null;
  isActive: boolean;
  epoch: number;
  /** The first of the current consecutive failures, or of those after which Halcyon disabled the webhook; else null. */
  failingSince: Date | null;
};

/** The webhooks with the most consecutive failures, and those with the most failed deliveries from `fromId` on: `limit` of each. */
type Most = { fromId: number; limit: number };

const mostFailing = (sql: Queryable, { fromId, limit }: Most) => sql`
  (select t.shard, t.webhook_id from webhook_state t
    join webhook w on w.shard = t.shard and w.id = t.webhook_id and w.is_active and w.epoch = t.epoch
    where t.consecutive_failures > 0 order by t.consecutive_failures desc limit ${limit})
  union
  (select shard, webhook_id from delivery_done
    where state = 'failed' and resent_as is null and id >= ${fromId}
    group by shard, webhook_id order by count(*) desc limit ${limit})`;

const ofStore = (sql: Queryable, store: { shard: number; storeId: number }, { limit }: Most) => sql`
  select shard, id as webhook_id from webhook
  where shard = ${store.shard} and store_id = ${store.storeId} order by id limit ${limit}`;

/** Returns the most failing webhooks of all stores, or the first webhooks of one store. */
export async function listFailing(
  sql: Queryable,
  most: Most,
  store?: { shard: number; storeId: number },
): Promise<FailingRow[]> {
  return sql<FailingRow[]>`
  select w.shard, w.id, w.name, w.store_id as "storeId", s.name as "storeName", w.client, w.url, w.is_active as "isActive", w.epoch,
    case when w.is_active then t.first_failure_at else p.first_failure_at end as "failingSince"
  from (${store === undefined ? mostFailing(sql, most) : ofStore(sql, store, most)}) as f
  join webhook w on w.shard = f.shard and w.id = f.webhook_id
  join store s on s.shard = w.shard and s.id = w.store_id
  left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
  left join webhook_state p on p.shard = w.shard and p.webhook_id = w.id and p.epoch = w.epoch - 1 and p.is_condemned
  where not w.is_held`;
}
