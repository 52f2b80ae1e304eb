/** Opens the databases beside the home database: those of `SHARD_DATABASES`, or of the map in the home database. */
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import { DatabaseError, openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { createSealer, type Sealer } from '#db/seal.ts';
import { openAddress, sealAddress, readIdentity, readMap } from '#shards/map-sql.ts';
import {
  adopt,
  assignedIn,
  replaceAddresses,
  requireDistinct,
  requireHome,
  requireOwners,
  requireSameOwners,
  type Assigned,
  identify,
  isDown,
  prepareDatabase,
  type Prepared,
} from '#shards/adopt.ts';
import { removeUnused } from '#shards/move/moves.ts';
import type { MapDatabase, ShardMap } from '#shards/map.ts';
import type { Config } from '#config/config.ts';

/** A database of the map. `isPrepared`: it was reachable, and has the schema and the key of this process. */
export type OtherDatabase = Pools & { id: number; name: string; address: DatabaseAddress; isPrepared: boolean };
/** `direct` connects to PostgreSQL itself, even if `DATABASE_URL` points to PgBouncer. */
export type Pools = { sql: Sql; direct: Sql };
type OpenPools = (address: DatabaseAddress) => Pools;

export type OtherDatabases = {
  /** The map, with the addresses that were used. */
  map: ShardMap;
  /** The databases of the map beside the home database. */
  databases: readonly OtherDatabase[];
  /** The migrations that were applied to each of them. */
  migrated: readonly { database: string; applied: readonly string[] }[];
  /** Whether all that are prepared are sealed with the first key; otherwise `halcyon rekey` is due. */
  isKeyAdopted: boolean;
};

export type OpeningOptions = {
  /** Throws if a database of the map is unavailable; otherwise that is logged. */
  requiresAll?: boolean;
  /** Whether the map says which database has which shards, even if the setting differs; the setting has only addresses then. */
  followsMap?: boolean;
  /** `database`: the name of a database other than the home database. */
  onMigration?: (migration: string, database?: string) => void;
};

type Opening = OpeningOptions & { config: Config['database']; log: Log; home: Sql; keys: Keys; keysFrom: string };

/** A database of the setting; `database`: the one of the map that its address leads to. */
type Found = Assigned & { database: MapDatabase | undefined };

/** For the statements of adoption. */
const CONNECTIONS = 2;

const openByUrl = (url: string): Sql =>
  openPool({ kind: 'url', url }, { connections: CONNECTIONS, applicationName: 'halcyon' });

/** Opens databases of an installation; collects which migrations it applies to them. */
class Opener {
  readonly #opening: Opening;
  readonly #identity: string;
  readonly #sealer: Sealer;
  readonly #applied = new Map<string, readonly string[]>();
  #isKeyAdopted = true;

  constructor(opening: Opening, identity: string) {
    this.#opening = opening;
    this.#identity = identity;
    this.#sealer = createSealer(...opening.keys);
  }

  async #prepare(direct: Sql, { name, identity }: { name: string; identity?: string | undefined }): Promise<Prepared> {
    const { keys, keysFrom, onMigration } = this.#opening;
    const how = { home: this.#identity, keys, keysFrom, hasUsers, onMigration };
    const prepared = await prepareDatabase(direct, { name, identity, ...how });
    this.#applied.set(name, [...(this.#applied.get(name) ?? []), ...prepared.applied]);
    this.#isKeyAdopted &&= prepared.isKeyAdopted;
    return prepared;
  }

  /** Makes the first map. */
  async #adopt([home, ...others]: ReturnType<typeof assignedIn>): Promise<void> {
    await using pools = new AsyncDisposableStack();
    const candidates = await Array.fromAsync(others, async (other) => {
      const sql = pools.use(openByUrl(other.url));
      const { identity } = await this.#prepare(sql, { name: other.name });
      return { ...other, sql, identity };
    });
    await adopt(this.#opening.home, { home, others: candidates, sealer: this.#sealer });
  }

  /** Returns the url of a database; undefined for the home database, and an empty text if no key opens it. */
  #urlOf(database: MapDatabase): string | undefined {
    try {
      return openAddress(this.#sealer, database);
    } catch {
      return '';
    }
  }

  /** Returns the database of the map that an address leads to, and asks the database itself if the address is new. */
  async #find({ url, name }: Assigned, map: ShardMap): Promise<MapDatabase | undefined> {
    const known = map.databases.find((database) => this.#urlOf(database) === url);
    if (known !== undefined || url === undefined) return known;
    await using direct = openByUrl(url);
    const identity = await warnIfLate(this.#opening.log, name, identify(direct, name));
    return map.databases.find((database) => database.identity === identity);
  }

  /** Returns the databases of the setting with those of the map. A new address that does not respond is refused. */
  async #findAll(assigned: readonly Assigned[], map: ShardMap): Promise<Found[]> {
    const found = await Array.fromAsync(assigned, async (one) => ({ ...one, database: await this.#find(one, map) }));
    requireDistinct(found.flatMap(({ name, database }) => (database ? [{ name, identity: database.identity }] : [])));
    return found;
  }

  /** Compares the setting with the map; a changed address of a database is written into the map. */
  async #compare(assigned: readonly Assigned[], map: ShardMap): Promise<ShardMap> {
    const { home } = this.#opening;
    const found = await this.#findAll(assigned, map);
    requireSameOwners(
      map,
      found.map(({ shards, database }) => ({ shards, id: database?.id })),
    );
    const changed = found.flatMap(({ database, url, name }) =>
      database === undefined || url === undefined || this.#urlOf(database) === url ? [] : [{ ...database, name, url }],
    );
    if (changed.length > 0) await replaceAddresses(home, changed, this.#sealer);
    // The setting cannot name a database without shards.
    await removeUnused(home);
    return readMap(home);
  }

  /**
   * Returns the map with the addresses of the setting. After a restore these lead to the restored databases, and those of the map may lead
   * to the databases from before. Nothing is written.
   */
  async #withAddresses(assigned: readonly Assigned[], map: ShardMap): Promise<ShardMap> {
    const found = await this.#findAll(assigned, map);
    const databases = map.databases.map((database) => {
      const { url, name } = found.find((one) => one.database?.id === database.id) ?? {};
      if (url === undefined || name === undefined) return database;
      return { ...database, name, address: sealAddress(this.#sealer, { id: database.id, url }) };
    });
    return { ...map, databases };
  }

  /** Returns the map, after it was made from the setting or compared with it. */
  async #readMap(): Promise<ShardMap> {
    const { config, home, followsMap = false } = this.#opening;
    const map = await readMap(home);
    requireOwners(map);
    if (config.shards === undefined || config.url === undefined) return map;
    const assigned = assignedIn(config.shards, config.url);
    if (followsMap) return map.version > 0 ? this.#withAddresses(assigned, map) : map;
    if (map.version > 0) return this.#compare(assigned, map);
    await this.#adopt(assigned);
    // Another process may have made the map meanwhile, from another setting.
    return this.#compare(assigned, await readMap(home));
  }

  /** Returns whether a database of the map is prepared; false if it is unavailable and not required. */
  async #isPrepared({ name, identity }: MapDatabase, url: string): Promise<boolean> {
    const { log, requiresAll = false } = this.#opening;
    try {
      await using direct = openByUrl(url);
      await warnIfLate(log, name, identify(direct, name));
      await this.#prepare(direct, { name, identity });
      return true;
    } catch (error) {
      if (requiresAll || !isDown(error)) throw error;
      log.error({ database: name, err: error }, 'a database of the map is unavailable; continuing without it');
      return false;
    }
  }

  async open(opened: OtherDatabase[], openPools: OpenPools): Promise<OtherDatabases> {
    const map = await this.#readMap();
    const preparing: (() => Promise<void>)[] = [];
    for (const database of map.databases) {
      const url = this.#urlOf(database);
      if (url === undefined) continue;
      const { id, name } = database;
      if (url === '')
        throw new DatabaseError(
          `The address of ${name} in the map of shards cannot be decrypted with HALCYON_SECRET_KEY: start with SHARD_DATABASES, which writes the address again`,
        );
      const address: DatabaseAddress = { kind: 'url', url };
      const one = { id, name, address, ...openPools(address), isPrepared: false };
      opened.push(one);
      preparing.push(async () => void (one.isPrepared = await this.#isPrepared(database, url)));
    }
    // Concurrently: each database that does not respond takes ten seconds.
    const ends = await Promise.allSettled(preparing.map((prepare) => prepare()));
    const [failed, ...others] = ends.filter((end) => end.status === 'rejected');
    for (const { reason } of others)
      this.#opening.log.error({ err: reason }, 'another database of the map cannot be used either');
    if (failed !== undefined) throw failed.reason;
    const migrated = [...this.#applied].map(([database, applied]) => ({ database, applied }));
    return { map, databases: opened, migrated, isKeyAdopted: this.#isKeyAdopted };
  }
}

/**
 * Opens the databases of the map. Adds them to `opened` before they are used, so that the caller can close them after an error. Throws a
 * `DatabaseError` if the home database is in the map of another one, or the map differs from the setting.
 */
export async function openOtherDatabases(
  opening: Opening,
  opened: OtherDatabase[],
  openPools: OpenPools,
): Promise<OtherDatabases> {
  const identity = await readIdentity(opening.home);
  requireHome(identity);
  return new Opener(opening, identity.identity).open(opened, openPools);
}

/** Without a name a command would print nothing while it waits. */
const LATE_MS = 2_000;

/** Waits for `work`, and logs the name of the database if that takes longer than two seconds. */
export async function warnIfLate<T>(log: Log, database: string, work: Promise<T>): Promise<T> {
  using _timer = setTimeout(() => log.warn({ database }, 'a database has not responded yet; still waiting'), LATE_MS);
  return await work;
}
