/** Keeps the deliveries of one resource in order for webhooks with the ordering `resource`. */
import type { Runtime } from '#runtime/runtime.ts';
import type { Fences } from '../leases/ownership.ts';
import type { Pending } from '../policy/entry.ts';
import type { Lane } from './lane.ts';
import { NONE_POSTPONED, type Postponed } from './loaded-deliveries.ts';
import { postponeWaiting } from './queue-sql.ts';

/**
 * A delivery waits until the first one of its resource is due, and for at least so long. The end of that one makes it due at once,
 * unless that ends without an attempt (an erasure) or its worker dies: then it waits for so long. With 5 s, a backlog of a resource
 * was checked again as fast as it was sent.
 */
const RECHECK_MS = 30_000;

const isOrdered = ({ target }: Lane): boolean => target?.isActive === true && target.isOrdered;

/**
 * Postpones those of the fetched rows that have to wait for an earlier delivery of their resource. Those that are queued have no
 * earlier pending delivery, also not later: a resource gets its versions in order.
 */
export async function postponeInOrder(
  { sql }: Pick<Runtime, 'sql'>,
  ownership: Pick<Fences, 'workerId' | 'fenceOf'>,
  lanes: readonly Lane[],
  rows: readonly Pending[],
  nowMs: number,
): Promise<Postponed> {
  const ordered = new Map(lanes.filter(isOrdered).map((lane) => [lane.webhookId, lane]));
  if (ordered.size === 0) return NONE_POSTPONED;
  const due = rows.flatMap((row) => {
    const lane = ordered.get(row.webhookId);
    const isNew = lane !== undefined && row.dueAt.getTime() <= nowMs && !lane.deliveries.has(row.id);
    return isNew ? [{ ...row, shard: lane.shard }] : [];
  });
  if (due.length === 0) return NONE_POSTPONED;
  const shards = [...new Set(due.map(({ shard }) => shard))].toSorted((a, b) => a - b);
  const owned = shards.flatMap((shard) => {
    const fence = ownership.fenceOf(shard);
    return fence === undefined ? [] : [{ shard, fence }];
  });
  const fences = { shard: owned.map(({ shard }) => shard), fence: owned.map(({ fence }) => fence) };
  const columns = {
    shard: due.map(({ shard }) => shard),
    id: due.map(({ id }) => id),
    epoch: due.map(({ epoch }) => epoch),
  };
  const checked = await postponeWaiting(sql, ownership.workerId, fences, columns, new Date(nowMs + RECHECK_MS));
  const dueAt = new Map(checked.map((row) => [row.id, row.dueAt?.getTime()]));
  return new Map(
    due.flatMap(({ id }) => {
      // Deliveries of a shard that this worker does not own any more are not returned.
      const untilMs = dueAt.has(id) ? dueAt.get(id) : Number.POSITIVE_INFINITY;
      return untilMs === undefined ? [] : [[id, untilMs] as const];
    }),
  );
}
