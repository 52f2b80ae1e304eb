/** SQL that reads the webhooks whose deliveries a store's list has. */
import type { Sql } from '#db/pool.ts';
import { historySeenBy, type SeenStore } from '../visibility-sql.ts';
import type { Owner } from './history-sql.ts';

/** Returns the time zone of the store and its webhooks whose deliveries the caller sees, of which it has at most 100; undefined if the store does not exist. */
export async function readOwners(
  sql: Sql,
  { shard, storeId, app }: SeenStore,
): Promise<{ timeZone: string; owners: Owner[] } | undefined> {
  const rows = await sql.reads<{ timeZone: string; id: number | null; epoch: number; heldUntil: Date | null }[]>`
    select s.time_zone as "timeZone", w.id, w.epoch, greatest(t.paused_until, t.probe_at) as "heldUntil"
    from store s
    left join webhook w on w.shard = s.shard and w.store_id = s.id ${historySeenBy(sql, app)}
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
    where s.shard = ${shard} and s.id = ${storeId}
    order by w.id`;
  const [first] = rows;
  if (first === undefined) return undefined;
  const owners = rows.flatMap(({ id, epoch, heldUntil }) =>
    id === null ? [] : [{ shard, storeId, id, epoch, heldUntil }],
  );
  return { timeZone: first.timeZone, owners };
}
