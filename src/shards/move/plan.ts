/** Plans the moves that make databases even. */

export type PlannedMove = { from: number; to: number; shards: number[] };

type Input = {
  /** The id of the database that owns each shard. */
  owners: readonly number[];
  /** Bytes or rows of each shard. */
  loads: readonly number[];
  databases: readonly number[];
};

const extremesOf = (
  databases: readonly number[],
  sumOf: (database: number) => number,
): [most: number, least: number] => {
  const sorted = databases.toSorted((a, b) => sumOf(b) - sumOf(a));
  return [sorted[0] ?? 0, sorted.at(-1) ?? 0];
};

export function sumsOf({ owners, loads, databases }: Input): Map<number, number> {
  const sums = new Map(databases.map((database) => [database, 0]));
  for (const [shard, owner] of owners.entries()) sums.set(owner, (sums.get(owner) ?? 0) + (loads[shard] ?? 0));
  return sums;
}

/**
 * Returns the owners after shards were moved one by one from the database with the most to that with the least, while that makes them
 * more even: then they differ by no more than the smallest shard of the larger one. Empty shards count as one byte, so that a new
 * database gets its share of them too.
 */
export function evenOwners({ owners, loads, databases }: Input): number[] {
  const input = { owners: [...owners], loads: loads.map((load) => load + 1), databases };
  const sums = sumsOf(input);
  for (;;) {
    const [most, least] = extremesOf(databases, (database) => sums.get(database) ?? 0);
    const gap = (sums.get(most) ?? 0) - (sums.get(least) ?? 0);
    const loadOf = (shard: number): number => input.loads[shard] ?? 0;
    const movable = input.owners.flatMap((owner, shard) => (owner === most && loadOf(shard) < gap ? [shard] : []));
    // The last one that fits: so the moved shards are consecutive, where their sizes allow it.
    const shard = movable.findLast((one) => loadOf(one) <= gap / 2) ?? movable.at(-1);
    if (shard === undefined) return input.owners;
    input.owners[shard] = least;
    sums.set(most, (sums.get(most) ?? 0) - loadOf(shard));
    sums.set(least, (sums.get(least) ?? 0) + loadOf(shard));
  }
}

/** Returns the moves that lead from some owners to others. */
export function movesBetween(before: readonly number[], after: readonly number[]): PlannedMove[] {
  const changed = before.flatMap((from, shard) => {
    const to = after[shard];
    return to === undefined || to === from ? [] : [{ from, to, shard }];
  });
  return [...Map.groupBy(changed, ({ from, to }) => `${from} ${to}`).values()].flatMap((group) =>
    group[0] === undefined ? [] : [{ from: group[0].from, to: group[0].to, shards: group.map(({ shard }) => shard) }],
  );
}

/** Returns the moves that lead to other owners; none if they are all of empty shards, unless a database has no shards yet. */
export function usefulMoves(before: Input, after: readonly number[]): PlannedMove[] {
  const isUsed = before.databases.every((database) => before.owners.includes(database));
  const sums = sumsOf({ ...before, owners: after });
  const isSame = [...sumsOf(before)].every(([database, sum]) => sums.get(database) === sum);
  return isUsed && isSame ? [] : movesBetween(before.owners, after);
}
