/**
 * Prepares databases beside the home database, makes the map of shards from `SHARD_DATABASES` (adoption), and compares the setting with the
 * map later.
 *
 * Adoption writes the other databases first, and the map last, in one transaction of the home database. So if a process dies in
 * between, the next start repeats all of it.
 */
import type { Keys } from '#core/keys.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { DatabaseError, type Queryable, type Sql, limitWaits, transaction, type Tx } from '#db/pool.ts';
import { checkSealingKey, type Sealer } from '#db/seal.ts';
import { isUnavailable, isLockTimeout } from '#db/unavailable.ts';
import { checkServer, UnusableError } from '#db/usable.ts';
import { nameOf } from '#db/servers.ts';
import {
  findIdentity,
  hasWorkers,
  readIdentity,
  type Identity,
  lockIdentity,
  lockStores,
  setLeases,
  assignShards,
  listShardsWithStores,
  lockMap,
  readVersion,
  upsertDatabase,
  writeHome,
  sealAddress,
} from './map-sql.ts';
import { formatShards, HOME, shardsIn, shardsOf, UNOWNED, type MapDatabase, type Range, type ShardMap } from './map.ts';

type Preparation = {
  /** The name of the database, for messages. */
  name: string;
  /** The identity of the home database. */
  home: string;
  /** The identity of the database in the map; absent if it is not in the map yet. */
  identity?: string | undefined;
  keys: Keys;
  /** Describes the source of the keys. */
  keysFrom: string;
  /** Where the address is from, for messages; `SHARD_DATABASES` by default. */
  setting?: string;
  onMigration?: ((name: string, database: string) => void) | undefined;
  /** Returns whether a database has accounts, which only home databases have. */
  hasUsers: (sql: Queryable) => Promise<boolean>;
};

export type Prepared = { identity: string; applied: readonly string[]; isKeyAdopted: boolean };

/** Adds the name of the database to an error that an operator can fix. */
export function withName(name: string, error: unknown, setting = 'SHARD_DATABASES'): unknown {
  if (error instanceof UnusableError) {
    const remedy = error.remedy.replaceAll('DATABASE_URL', setting);
    return new UnusableError(`${name}: ${error.problem}`, remedy, error.cause);
  }
  return error instanceof DatabaseError
    ? new DatabaseError(`${name}: ${error.message}`, { cause: error.cause })
    : error;
}

/** Returns whether a database could not be prepared because it is unavailable; it can be prepared when it returns. */
export function isDown(error: unknown): boolean {
  return isUnavailable(error) || (error instanceof DatabaseError && isUnavailable(error.cause));
}

/** Returns the identity of a database that a setting names; undefined if Halcyon does not know it. */
export async function identify(direct: Sql, name: string, setting?: string): Promise<string | undefined> {
  try {
    await checkServer(direct);
    return (await findIdentity(direct))?.identity;
  } catch (error) {
    throw withName(name, error, setting);
  }
}

/** Throws a `DatabaseError` if the database is in the map of another home database, or is not the one of the map. */
function requireMember(found: Identity | undefined, { home, identity }: Preparation): void {
  const isFree = found === undefined || found.home === null;
  if (!isFree && found.home !== home)
    throw new DatabaseError('it belongs to the map of another home database: use a new database');
  if (identity !== undefined && (isFree || found.identity !== identity))
    throw new DatabaseError(
      'it is another database than that of the map of shards: restore the database, or correct its address by SHARD_DATABASES',
    );
}

/** Throws a `DatabaseError` if a database that is in no map is the home of another installation, whose worker would deliver the shards too. */
async function requireUnused(
  direct: Sql,
  found: Identity | undefined,
  { home, hasUsers }: Pick<Preparation, 'home' | 'hasUsers'>,
): Promise<void> {
  if (found === undefined || found.home !== null || found.identity === home) return;
  const use = (await hasWorkers(direct)) ? 'a worker runs on it' : (await hasUsers(direct)) && 'it has users';
  if (use !== false) throw new DatabaseError(`it is the database of another installation (${use}): use a new database`);
}

/**
 * Throws a `DatabaseError` if the database cannot be used. One of another home database, and one that is not the database of the map,
 * is not changed: an empty database in the place of a lost one must not be taken for it. Can be repeated. `direct` leads to PostgreSQL
 * itself.
 */
export async function prepareDatabase(direct: Sql, preparation: Preparation): Promise<Prepared> {
  const { name, keys, keysFrom, setting, onMigration } = preparation;
  try {
    await checkServer(direct);
    const found = await findIdentity(direct);
    requireMember(found, preparation);
    await requireUnused(direct, found, preparation);
    const { applied } = await migrate(direct, MIGRATIONS, (migration) => onMigration?.(migration, name));
    const isKeyAdopted = await checkSealingKey(direct, { keys, from: keysFrom });
    const { identity } = await readIdentity(direct);
    return { identity, applied, isKeyAdopted };
  } catch (error) {
    throw withName(name, error, setting);
  }
}

/** How long adoption waits for a lock of the home database, while requests may wait behind it. */
const LOCK_MS = 1_000;

/** A database as the setting describes it. `url`: undefined for the home database. */
export type Assigned = { url: string | undefined; name: string; shards: readonly number[] };
type Others = (Assigned & { url: string })[];
/** An assigned database that is open and prepared. */
type Candidate = Assigned & { url: string; sql: Sql; identity: string };

/** Throws a `DatabaseError` if a database is not a home database. */
export function requireHome({ home }: Identity): void {
  if (home !== null)
    throw new DatabaseError(
      'The database of DATABASE_URL is in the map of another database: set DATABASE_URL to the home database, and SHARD_DATABASES to all of them',
    );
}

/** Throws a `DatabaseError` if a shard has no owner: the events of its stores would be written into no database, or a wrong one. */
export function requireOwners(map: ShardMap): void {
  const unowned = shardsOf(map, UNOWNED);
  if (unowned.length > 0)
    throw new DatabaseError(
      `No database owns the shards ${formatShards(unowned)}: insert the missing rows into shard_owner of the home database, or restore it`,
    );
}

/** Describes which database owns which shards, by names without passwords. */
export function describeMap(map: Pick<ShardMap, 'databases' | 'owners'>): string {
  return map.databases.map(({ id, name }) => `${name} has ${formatShards(shardsOf(map, id)) || 'none'}`).join('; ');
}

/** Groups the ranges of the setting by their database; the home database is first, and may have no shards. */
export function assignedIn(ranges: readonly (Range & { url: string })[], homeUrl: string): [Assigned, ...Others] {
  const shards = new Map<string, number[]>([[homeUrl, []]]);
  for (const { url, ...range } of ranges) shards.set(url, [...(shards.get(url) ?? []), ...shardsIn(range)]);
  const assigned = (url: string) => ({ name: nameOf({ kind: 'url', url }), shards: shards.get(url) ?? [], url });
  const others = [...shards.keys()].filter((url) => url !== homeUrl);
  return [{ ...assigned(homeUrl), url: undefined }, ...others.map(assigned)];
}
/** Throws a `DatabaseError` if two addresses lead to the same database, which would then own shards under two names. */
export function requireDistinct(databases: readonly { name: string; identity: string }[]): void {
  const names = new Map<string, string>();
  for (const { name, identity } of databases) {
    const other = names.get(identity);
    if (other !== undefined)
      throw new DatabaseError(
        `SHARD_DATABASES has two addresses of one database, ${other} and ${name}: write the same URL in each of its ranges (that of DATABASE_URL for the home database)`,
      );
    names.set(identity, name);
  }
}

/** Throws a `DatabaseError` if a database has stores: adoption moves none. */
async function requireEmpty({ sql, name }: Candidate): Promise<void> {
  const shards = await listShardsWithStores(sql);
  if (shards.length > 0)
    throw new DatabaseError(
      `${name} already has stores (shards ${formatShards(shards)}): use a new database, stores are moved by halcyon shards move`,
    );
}

/** Writes into an empty database that it belongs to this home database, and which shards it delivers. */
async function claim({ sql, shards, name }: Candidate, home: string): Promise<void> {
  await transaction(sql, async (tx) => {
    const { home: other } = await lockIdentity(tx);
    if (other !== null && other !== home)
      throw new DatabaseError(`${name} belongs to the map of another home database: use a new database`);
    await writeHome(tx, home);
    await setLeases(tx, shards);
  });
}

/** Throws a `DatabaseError` if the home database has stores in shards that the setting assigns to another one. */
export async function requireOwnStores(sql: Queryable, home: Assigned): Promise<void> {
  const own = new Set(home.shards);
  const elsewhere = (await listShardsWithStores(sql)).filter((shard) => !own.has(shard));
  if (elsewhere.length > 0)
    throw new DatabaseError(
      `The home database has stores in the shards ${formatShards(elsewhere)}, which SHARD_DATABASES assigns to other databases: assign all shards to DATABASE_URL, or remove the setting, and move them by halcyon shards move`,
    );
}

type Plan = { home: Assigned; others: readonly Candidate[]; sealer: Sealer };

/** Writes the map; throws a `DatabaseError` if the home database has stores in shards that another database owns. */
async function writeMap(tx: Tx, identity: string, { home, others, sealer }: Plan): Promise<void> {
  await limitWaits(tx, LOCK_MS);
  await lockStores(tx);
  await requireOwnStores(tx, home);
  await setLeases(tx, home.shards);
  await upsertDatabase(tx, { id: HOME, name: home.name, identity, address: null });
  await assignShards(tx, home.shards, HOME);
  for (const [index, { url, name, shards, identity: other }] of others.entries()) {
    const id = HOME + 1 + index;
    await upsertDatabase(tx, { id, name, identity: other, address: sealAddress(sealer, { id, url }) });
    await assignShards(tx, shards, id);
  }
}

/** Writes the first map; does nothing if another process has written one. */
export async function adopt(sql: Sql, plan: Plan): Promise<void> {
  const { identity } = await readIdentity(sql);
  requireDistinct([{ name: plan.home.name, identity }, ...plan.others]);
  try {
    await transaction(sql, async (tx) => {
      await lockMap(tx);
      if ((await readVersion(tx)) > 0) return;
      for (const other of plan.others) await requireEmpty(other);
      for (const other of plan.others) await claim(other, identity);
      await writeMap(tx, identity, plan);
    });
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    const message = 'Another transaction has kept the stores of the home database locked for a second: start again';
    throw new DatabaseError(message, { cause: error });
  }
}

/** Throws a `DatabaseError` unless the setting assigns every shard to the database that owns it. `id`: undefined if it is not in the map. */
export function requireSameOwners(
  map: ShardMap,
  assigned: readonly { shards: readonly number[]; id: number | undefined }[],
): void {
  const owners = new Map(assigned.flatMap(({ id, shards }) => shards.map((shard) => [shard, id] as const)));
  const differing = map.owners.flatMap((owner, shard) => (owners.get(shard) === owner ? [] : [shard]));
  if (differing.length > 0)
    throw new DatabaseError(
      `SHARD_DATABASES differs for the shards ${formatShards(differing)} from version ${map.version} of the map in the home database (${describeMap(map)}): correct the setting or remove it; halcyon shards move changes the map`,
    );
}

/** Replaces the name and address of databases in the map; its version rises, so that running processes follow. */
export async function replaceAddresses(
  sql: Sql,
  changed: readonly (MapDatabase & { url: string })[],
  sealer: Sealer,
): Promise<void> {
  await transaction(sql, async (tx) => {
    await lockMap(tx);
    for (const { url, ...database } of changed)
      await upsertDatabase(tx, { ...database, address: sealAddress(sealer, { ...database, url }) });
    await assignShards(tx, [], HOME);
  });
}
