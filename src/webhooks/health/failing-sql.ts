/** SQL that finds the webhooks of a database whose endpoints fail now. */
import type { Queryable } from '#db/pool.ts';
import { selectedHealth, type HealthRow } from './health-sql.ts';

export type FailingRow = HealthRow & {
  shard: number;
  storeName: string;
  /** The internal id of the app that created it; null if a person did. */
  client: number | null;
  url: string | null;
};

/** The webhooks with the most consecutive failures, and those with the most failed deliveries from `fromId` on: `limit` of each. */
type Most = { fromId: number; limit: number };

/** What a person or an operator has ended on purpose does not fail, whatever it missed. */
const mostFailing = (sql: Queryable, { fromId, limit }: Most) => sql`
  (select t.shard, t.webhook_id from webhook_state t
    join webhook w on w.shard = t.shard and w.id = t.webhook_id and w.is_active and w.epoch = t.epoch
    where t.consecutive_failures > 0 order by t.consecutive_failures desc limit ${limit})
  union
  (select d.shard, d.webhook_id from (
      select shard, webhook_id, count(*) as failed from delivery_done
      where state = 'failed' and resent_as is null and id >= ${fromId}
      group by shard, webhook_id
    ) as d
    join webhook w on w.shard = d.shard and w.id = d.webhook_id
      and (w.is_active or w.inactive_reason is not null and w.inactive_reason <> 'suspended')
    order by d.failed desc limit ${limit})`;

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
  ${selectedHealth(sql, sql`, w.shard, s.name as "storeName", w.client, w.url`)}
  join (${store === undefined ? mostFailing(sql, most) : ofStore(sql, store, most)}) as f on f.shard = w.shard and f.webhook_id = w.id
  where not w.is_held`;
}
