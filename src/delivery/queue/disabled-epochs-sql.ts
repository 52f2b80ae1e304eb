/** The statement that ends pending deliveries of older epochs in batches. */
import type { Queryable } from '#db/pool.ts';

/** Selects deliveries of epochs before `epoch` among the first `limit` that are due at `from` or later. */
export type OldEpochs = { webhookId: number; epoch: number; from: Date; limit: number };

/** Larger than any epoch. All deliveries of a deleted webhook are of an older epoch. */
const EPOCH_MAX = 2 ** 31 - 1;

/**
 * Ends a batch under the fencing token of the shard. Returns how many deliveries it ended and the last due time, from
 * which the next batch continues: index entries of deleted rows remain as long as an old transaction is open. Reads no rows
 * behind the first `limit`: a lane may have a million of the current epoch, and the epoch is in no index.
 */
export async function endOldEpochs(
  sql: Queryable,
  worker: number,
  { shard, fence }: { shard: number; fence: number },
  { webhookId, epoch, from, limit }: OldEpochs,
  now: Date,
): Promise<{ ended: number; dueAt: Date | null }> {
  const [row] = await sql<{ ended: number; dueAt: Date | null }[]>`
    with lease as materialized (
      select from shard_lease where shard = ${shard} and owner = ${worker} and fence = ${fence} for share
    ), due as materialized (
      select ctid as row_id, due_at, epoch from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and due_at >= ${from} and due_at > '-infinity'
        and exists (select from lease)
      order by due_at, id
      limit ${limit}
    ), deleted as (
      delete from delivery where ctid = any(array(select row_id from due where epoch < ${Math.min(epoch, EPOCH_MAX)}))
      returning shard, id, store_id, webhook_id, event_id, attempts
    ), done as (
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
      select shard, id, store_id, webhook_id, event_id, 'failed', attempts, ${now} from deleted
    ), removed_notes as (
      delete from delivery_suspect where ctid = any(array(
        select p.place from deleted
        cross join lateral (
          select s.ctid as place from delivery_suspect s where s.shard = deleted.shard and s.delivery_id = deleted.id limit 1
        ) as p
      ))
    )
    select (select count(*)::int from deleted) as ended, max(due_at) as "dueAt" from due`;
  return row ?? { ended: 0, dueAt: null };
}
