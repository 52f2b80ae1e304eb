/** How many shards a worker should hold, and which. Pure: who is alive and who holds what comes in. */
import type { LeaseRow } from './leases-sql.ts';

/**
 * How many shards each of the living should hold. Shares differ by one at most and amount to all shards: with the same
 * `ceil(shards / living)` for everybody, of 100 workers 14 would have none.
 */
export const sharesOf = (living: readonly number[], shards: number): Map<number, number> => {
  const least = Math.floor(shards / living.length);
  const more = shards % living.length;
  const ranked = living.toSorted((a, b) => a - b);
  return new Map(ranked.map((id, rank) => [id, least + (rank < more ? 1 : 0)]));
};

/**
 * What to take, of what is free or a dead worker's, and what to hand back, for an even split among the living. All who see
 * the same list reach for different shards: when all reached for the first that is free, one had it and the others came
 * a beat later for the next. Whoever sees another list may lose one to somebody else, and looks again.
 */
export const planOf = (
  leases: readonly LeaseRow[],
  who: { self: number; living: readonly number[]; dead: ReadonlySet<number> },
  /** What we are handing back already. */
  leaving: ReadonlySet<number>,
): { take: number[]; handBack: number[] } => {
  const { self, living, dead } = who;
  const held = Map.groupBy(leases, ({ owner }) => owner);
  const free = leases
    .filter(({ owner }) => owner === null || dead.has(owner))
    .map(({ shard }) => shard)
    .toSorted((a, b) => a - b);
  const shares = sharesOf(living, leases.length);
  const lacking = (id: number) => Math.max(0, (shares.get(id) ?? 0) - (held.get(id)?.length ?? 0));
  const others = [...shares.keys()].filter((id) => id < self);
  const first = others.reduce((sum, id) => sum + lacking(id), 0);
  const kept = (held.get(self) ?? []).map(({ shard }) => shard).filter((shard) => !leaving.has(shard));
  return {
    take: free.slice(first, first + lacking(self)).filter((shard) => !leaving.has(shard)),
    handBack: kept.slice(shares.get(self)),
  };
};
