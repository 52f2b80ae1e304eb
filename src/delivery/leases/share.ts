/** How many shards a worker should hold, and which. Pure: workers is alive and workers holds what comes in. */
import type { LeaseRow } from './leases-sql.ts';

/**
 * How many shards each of the live should hold. Shares differ by one at most and amount to all shards: with the same
 * `ceil(shards / live)` for everybody, of 100 workers 14 would have none.
 */
export const sharesOf = (live: readonly number[], shards: number): Map<number, number> => {
  const least = Math.floor(shards / live.length);
  const more = shards % live.length;
  const ranked = live.toSorted((a, b) => a - b);
  return new Map(ranked.map((id, rank) => [id, least + (rank < more ? 1 : 0)]));
};

/**
 * What to take, of what is free or a dead worker's, and what to hand back, for an even split among the live. All workers see
 * the same list reach for different shards: when all reached for the first that is free, one had it and the others came
 * a beat later for the next. Whoever sees another list may lose one to somebody else, and looks again.
 */
export const planShards = (
  leases: readonly LeaseRow[],
  workers: { self: number; live: readonly number[]; dead: ReadonlySet<number> },
  /** What we are handing back already. */
  handingBack: ReadonlySet<number>,
): { take: number[]; handBack: number[] } => {
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
};
