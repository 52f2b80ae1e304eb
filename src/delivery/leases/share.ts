/** Computes how many shards a worker should own, and which. Pure. */
import type { LeaseRow } from './leases-sql.ts';

/**
 * Returns the number of shards per live worker. Numbers differ by at most one and add up to all shards: with
 * `ceil(shards / workers)` for each, 14 of 100 workers would have none.
 */
export function sharesOf(live: readonly number[], shards: number): Map<number, number> {
  const least = Math.floor(shards / live.length);
  const more = shards % live.length;
  const ranked = live.toSorted((a, b) => a - b);
  return new Map(ranked.map((id, rank) => [id, least + (rank < more ? 1 : 0)]));
}

/**
 * Returns which free or orphaned shards to take and which to hand back for an even split. Workers that see the same
 * list take different shards: when all took the first free one, one worker got it and the others waited a heartbeat for
 * the next. A worker with another list may lose a shard to a competitor and tries again.
 */
export function planShards(
  leases: readonly LeaseRow[],
  workers: { self: number; live: readonly number[]; dead: ReadonlySet<number> },
  /** Shards whose hand-back is in progress. */
  handingBack: ReadonlySet<number>,
): { take: number[]; handBack: number[] } {
  const { self, live, dead } = workers;
  const byOwner = Map.groupBy(leases, ({ owner }) => owner);
  const free = leases
    .filter(({ owner }) => owner === null || dead.has(owner))
    .map(({ shard }) => shard)
    .toSorted((a, b) => a - b);
  const shares = sharesOf(live, leases.length);
  const missing = (id: number) => Math.max(0, (shares.get(id) ?? 0) - (byOwner.get(id)?.length ?? 0));
  const others = [...shares.keys()].filter((id) => id < self);
  const first = others.reduce((sum, id) => sum + missing(id), 0);
  const kept = (byOwner.get(self) ?? []).map(({ shard }) => shard).filter((shard) => !handingBack.has(shard));
  return {
    take: free.slice(first, first + missing(self)).filter((shard) => !handingBack.has(shard)),
    handBack: kept.slice(shares.get(self)),
  };
}
