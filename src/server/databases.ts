/** The databases of a process, and which of them has a store. Follows the map of shards in the home database. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Queryable, Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { inTime, type Running, type Pace } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { requireOwners } from '#shards/adopt.ts';
import { HOME, type MapDatabase, type ShardMap } from '#shards/map.ts';
import { readMap, readVersion } from '#shards/map-sql.ts';
import type { StoreDatabase } from './store-database.ts';

const POLL_MS = 1_000;
const RETRY_MS = 5_000;
/** How long the start of a process waits for a database other than the home database. */
const START_MS = 5_000;

type Deps = {
  home: Sql;
  log: Log;
  pace: Pace;
  open: (database: MapDatabase, databases: Databases) => StoreDatabase;
  /** Is called with a name that has left the map. */
  onLeft: (name: string) => void;
};

/** Returns the shard of the store or webhook in an address; null if it has none. */
export function shardOfAddress(params: Readonly<Record<string, string>>): number | null {
  const id = parseId(params['store_id'] ?? params['webhook_id'] ?? '');
  return id === undefined ? null : shardOf(id);
}

export class Databases implements Running {
  readonly #deps: Deps;
  readonly #databases = new Map<number, StoreDatabase>();
  readonly #starting = new Map<number, Promise<void>>();
  readonly #stopping = new AbortController();
  map: ShardMap;
  /** Whether stores are in several databases: requests read it, and the map may change while the process runs. */
  isDivided: boolean;
  readonly home: StoreDatabase;
  #following: Promise<void> = Promise.resolve();
  #reading: Promise<void> | undefined;

  constructor(map: ShardMap, deps: Deps) {
    this.#deps = deps;
    this.map = map;
    this.isDivided = map.version > 0;
    this.#openAll(map);
    // It is never opened again, because its address is that of the process.
    this.home = this.at(HOME);
  }

  /** Returns the database with this id. Throws if the map does not have it. */
  at(id: number): StoreDatabase {
    const database = this.#databases.get(id);
    if (database === undefined) throw new Error(`The map of shards has no database ${id}`);
    return database;
  }

  /** Returns the database with this id; undefined if the map does not have it. */
  find(id: number): StoreDatabase | undefined {
    return this.#databases.get(id);
  }

  of(shard: number): StoreDatabase {
    return this.at(this.map.owners[shard] ?? HOME);
  }

  /** Returns the database of the store or webhook in an address. The home database responds with a 404 if there is none. */
  ofAddress(params: Readonly<Record<string, string>>): StoreDatabase {
    const shard = shardOfAddress(params);
    return shard === null ? this.home : this.of(shard);
  }

  /** Returns all databases, the home database first. */
  all(): StoreDatabase[] {
    return [...this.#databases.values()];
  }

  readonly each = (): readonly Queryable[] => this.all().map(({ sql }) => sql);

  /** Starts the home database, and then the others, which are tried again in the background if they are not available. */
  async start(): Promise<void> {
    await this.home.start();
    await this.#startOthers();
    this.#deps.pace.refreshBy(() => this.#follow());
    this.#following = this.#deps.pace.repeat(POLL_MS, () => this.#follow(), this.#stopping.signal);
  }

  async stopStreams(): Promise<void> {
    await Promise.all(this.all().map((database) => database.stopStreams()));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#following, this.#reading, ...this.#starting.values()]);
    await Promise.all(this.all().map((database) => database.stop()));
  }

  /** Opens the databases that are new, and those that have a new address; closes those that have left the map. */
  #openAll({ databases }: ShardMap): void {
    const known = new Map(this.map.databases.map((database) => [database.id, database]));
    for (const database of databases) {
      const { id, address } = database;
      const current = this.#databases.get(id);
      const isSame = address === null || known.get(id)?.address?.equals(address) === true;
      if (current !== undefined && isSame) continue;
      this.#databases.set(id, this.#deps.open(database, this));
      this.#starting.delete(id);
      void current?.stop();
    }
    const [ids, names] = [new Set(databases.map(({ id }) => id)), new Set(databases.map(({ name }) => name))];
    for (const { id, name } of known.values()) {
      if (!names.has(name)) this.#deps.onLeft(name);
      if (ids.has(id)) continue;
      void this.#databases.get(id)?.stop();
      this.#databases.delete(id);
      this.#starting.delete(id);
    }
  }

  async #startOthers(): Promise<void> {
    // With one database requests wait for it: nothing else can be served.
    if (this.#databases.size > 1) for (const database of this.all()) database.watch();
    const starting = this.all()
      .filter(({ id }) => id !== HOME && !this.#starting.has(id))
      .map((database) => {
        const started = this.#startWhenAvailable(database);
        this.#starting.set(database.id, started);
        return started;
      });
    await inTime(START_MS, Promise.all(starting), undefined);
  }

  async #startWhenAvailable(database: StoreDatabase): Promise<void> {
    const { signal } = this.#stopping;
    const { log } = this.#deps;
    // It may be replaced by one with a new address.
    while (!signal.aborted && this.#databases.get(database.id) === database) {
      try {
        return await database.start();
      } catch (error) {
        const reason = isUnavailable(error) ? { reason: String(error) } : { err: error };
        log.error({ database: database.id, ...reason }, 'a database of the map cannot be used; retrying');
        await delay(RETRY_MS, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** Reads the map once at a time: an older version that is read last would close databases again. */
  #follow(): Promise<void> {
    if (this.#stopping.signal.aborted) return Promise.resolve();
    this.#reading ??= this.#readMap().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #readMap(): Promise<void> {
    const { home, log } = this.#deps;
    try {
      if ((await readVersion(home.reads)) === this.map.version) return;
      const map = await readMap(home);
      requireOwners(map);
      this.#openAll(map);
      this.map = map;
      this.isDivided = map.version > 0;
      log.info({ version: map.version }, 'map of shards changed');
      await this.#startOthers();
    } catch (error) {
      if (!isUnavailable(error)) log.error({ err: error }, 'reading the map of shards failed; retrying');
    }
  }
}
