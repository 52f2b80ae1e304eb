/** The map of shards, which is in the home database: which database owns which of the 256 shards, and where accounts are read. */
import { SHARDS } from '#core/ids.ts';
import { lockForAccess } from '#db/advisory-lock.ts';
import type { Queryable } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';

/** The id of the home database in the map. */
export const HOME = 0;
const HOME_NAME = 'home';
/** The owner of a shard that has no row in the map, which only damage leaves. */
export const UNOWNED = -1;

/** `name`: host, port and database, for people. `address`: the sealed url; null for the home database. */
export type MapDatabase = { id: number; name: string; identity: string; address: Buffer | null };

export type ShardMap = {
  /** Rises with each change; 0 if the home database owns all shards and has no map. */
  version: number;
  databases: readonly MapDatabase[];
  /** The id of the database that owns each shard, or `UNOWNED`. */
  owners: readonly number[];
};

export type Range = { first: number; last: number };

export const ALL_SHARDS: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard);

/** Returns the map of an installation with one database. */
export function undivided(identity: string): ShardMap {
  return {
    version: 0,
    databases: [{ id: HOME, name: HOME_NAME, identity, address: null }],
    owners: ALL_SHARDS.map(() => HOME),
  };
}

/** Returns the name of a database of the map; one with its id if the map does not have it. */
export function nameIn({ databases }: Pick<ShardMap, 'databases'>, id: number): string {
  return databases.find((one) => one.id === id)?.name ?? `database ${id}`;
}

export function shardsOf({ owners }: Pick<ShardMap, 'owners'>, database: number): number[] {
  return owners.flatMap((owner, shard) => (owner === database ? [shard] : []));
}

/** Returns ranges of consecutive shards, in ascending order. */
export function rangesOf(shards: readonly number[]): Range[] {
  const ranges: Range[] = [];
  for (const shard of shards.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last.last === shard - 1) last.last = shard;
    else ranges.push({ first: shard, last: shard });
  }
  return ranges;
}

/** Formats shards as ranges, such as `0-63, 128`. */
export function formatShards(shards: readonly number[]): string {
  return rangesOf(shards)
    .map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`))
    .join(', ');
}

export function shardsIn({ first, last }: Range): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Returns all databases that have stores. */
export type EachDatabase = () => readonly Queryable[];

/** Runs a read in each database and returns the rows of all. */
export async function inEach<Row>(
  each: EachDatabase,
  read: (sql: Queryable) => Promise<readonly Row[]>,
): Promise<Row[]> {
  const rows = await Promise.all(each().map((sql) => read(sql)));
  return rows.flat();
}

/** The same for what is only shown: leaves out the databases that are not available, so that a page does not wait for all. */
export async function inAvailable<Row>(
  each: EachDatabase,
  read: (sql: Queryable) => Promise<readonly Row[]>,
): Promise<Row[]> {
  return inEach(each, (sql) =>
    read(sql).catch((error: unknown) => {
      if (isUnavailable(error)) return [];
      throw error;
    }),
  );
}

/** How transactions of stores read accounts, which may be in another database. */
export type Accounts = {
  /** Returns the connection that reads accounts for a transaction. */
  of: (tx: Queryable) => Queryable;
  /**
   * Returns the connection that reads the access of apps, and keeps a change of an access from being applied to the stores until the
   * transaction ends.
   */
  locked: (tx: Queryable) => Promise<Queryable>;
};

/** Accounts in the database of the stores: the transaction reads them itself, and locks their rows. */
export const ACCOUNTS_HERE: Accounts = { of: (tx) => tx, locked: async (tx) => tx };

/** Accounts in the home database, for the stores of another one. */
export function accountsIn(home: Queryable): Accounts {
  return {
    of: () => home,
    locked: async (tx) => {
      await lockForAccess(tx, 'shared');
      return home;
    },
  };
}
