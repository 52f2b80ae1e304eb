/** Several databases on one server with wal_level=logical, a store with rows in each moved table, and a publisher of each database. */
import { Registry } from '@prometheus-io/client';
import { idOf, dayOf, firstIdOfDay, SHARDS } from '#core/ids.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { maintainPartitions, createIdAllocator } from '#db/partitions.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { createPublishMetrics, createPublisher, type PublishedEvent } from '#events/publish/publish.ts';
import { readMap } from '#shards/map-sql.ts';
import { HOME } from '#shards/map.ts';
import { listMoves, type Move, listMovedTables } from '#shards/move/move-sql.ts';
import { runMove, type Moved, type Place, type Progress, type Step } from '#shards/move/move.ts';
import { abortMove, dropMoved, newIdIn, ownerOf, startMove } from '#shards/move/moves.ts';
import type { Cleanups } from './cleanups.ts';
import { openServer } from './fleet/server.ts';
import { startDebianServer } from './debian-server.ts';

const SETTINGS = { wal_level: 'logical', max_replication_slots: '20', max_wal_senders: '20' };
export const SECRET_KEY = Buffer.alloc(32, 7);
const sealer = createSealer(SECRET_KEY);

type Server = { directory: string; user: string; password: string; database: string };

/** Starts PostgreSQL of that major version. */
export async function startLogicalServer(ends: Cleanups, version: 15 | 18): Promise<Server> {
  if (version === 18) return (await openServer(ends, { settings: SETTINGS })).address;
  const settings = Object.entries(SETTINGS).map(([name, value]) => `${name} = '${value}'\n`);
  return (await startDebianServer(ends, { settings: settings.join('') })).address;
}

const urlOf = ({ directory, user, password }: Server, database: string): string =>
  `postgres://${user}:${password || 'none'}@localhost/${database}?host=${encodeURIComponent(directory)}`;

const TEMPLATE = 'migrated';

async function withPool(url: string, use: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = openPool({ kind: 'url', url }, { connections: 1, applicationName: 'test' });
  await use(sql);
  await sql.end();
}

/** Creates a database with the schema, and an identity of its own. */
export async function createDatabase(server: Server, name: string): Promise<string> {
  const url = urlOf(server, name);
  await withPool(urlOf(server, 'postgres'), async (admin) => {
    const found = await admin`select from pg_database where datname = ${TEMPLATE}`;
    if (found.length === 0) {
      await admin`create database ${admin(TEMPLATE)}`;
      await withPool(urlOf(server, TEMPLATE), async (sql) => {
        await migrate(sql, MIGRATIONS);
        await maintainPartitions(sql, { now: new Date(), retentionDays: 30, daysAhead: 2 });
      });
    }
    await admin`create database ${admin(name)} template ${admin(TEMPLATE)}`;
  });
  await withPool(url, async (sql) => sql`update database_identity set identity = gen_random_uuid()`);
  return url;
}

const silent: Progress = { onStep: () => {}, onCopy: () => {}, onLate: () => {}, isStopped: () => false };

async function end(places: readonly Pick<Place, 'sql'>[]): Promise<void> {
  await Promise.all(places.map(({ sql }) => sql.end({ timeout: 0 })));
}

/** The operations of `halcyon shards`, each on new connections, as in a new process. */
export class Mover {
  readonly urls: Readonly<Record<string, string>>;
  readonly home: Sql;
  readonly #open: Sql[] = [];

  readonly #times: { numbersMs?: number };

  /** `urls`: by names of databases, of which one is `home`. `numbersMs`: as in `runMove`. */
  constructor(ends: Cleanups, urls: Readonly<Record<string, string>>, times: { numbersMs?: number } = {}) {
    this.urls = urls;
    this.#times = times;
    this.home = this.#pool(urls['home'] ?? '');
    ends.after(async () => {
      await Promise.all(this.#open.map((sql) => sql.end({ timeout: 0 })));
    });
  }

  #pool(url: string): Sql {
    const sql = openPool({ kind: 'url', url }, { connections: 3, applicationName: 'test' });
    this.#open.push(sql);
    return sql;
  }

  async place(name: string): Promise<Place> {
    const [url, map] = [this.urls[name] ?? '', await readMap(this.home)];
    const id = name === 'home' ? HOME : map.databases.find((one) => one.name === name)?.id;
    return { id: id ?? newIdIn(map), name, url, sql: this.#pool(url) };
  }

  /** Starts a move, or finds the one that is under way. */
  async start(shards: readonly number[], to: string): Promise<{ move: Move; source: Place; target: Place }> {
    const target = await this.place(to);
    const open = (await listMoves(this.home)).find(({ dateEnded }) => dateEnded === null);
    const map = await readMap(this.home);
    const from = open?.source ?? ownerOf(map, shards, target);
    const source = await this.place(from === HOME ? 'home' : (map.databases.find(({ id }) => id === from)?.name ?? ''));
    const move =
      open ??
      (await startMove(this.home, { shards, source, target, homeName: 'home', sealer, prepare: async () => {} }));
    return { move, source, target };
  }

  async move(shards: readonly number[], to: string, progress: Partial<Progress> = {}): Promise<Moved> {
    const { move, source, target } = await this.start(shards, to);
    try {
      return await runMove({
        home: this.home,
        move,
        source,
        target,
        progress: { ...silent, ...progress },
        ...this.#times,
      });
    } finally {
      await end([source, target]);
    }
  }

  /** Ends the connections of a move after a step, as a killed process does. */
  async killAfter(step: Step, shards: readonly number[], to: string): Promise<void> {
    const started = await this.start(shards, to);
    const home = this.#pool(this.urls['home'] ?? '');
    const { promise: reached, resolve } = Promise.withResolvers<void>();
    const afterStep = (done: Step) => {
      if (done !== step) return Promise.resolve();
      resolve();
      return new Promise<void>(() => {});
    };
    const running = runMove({ home, ...started, progress: { ...silent, afterStep }, ...this.#times });
    await Promise.race([reached, running]);
    await end([{ sql: home }, started.source, started.target]);
  }

  async abort(shards: readonly number[], to: string): Promise<void> {
    const { move, source, target } = await this.start(shards, to);
    try {
      await abortMove(this.home, { move, source, target, onDeleted: () => {} });
    } finally {
      await end([source, target]);
    }
  }

  async dropMoved(followedMs = 0): Promise<void> {
    const { databases } = await readMap(this.home);
    for (const move of await listMoves(this.home)) {
      const name = move.source === HOME ? 'home' : (databases.find(({ id }) => id === move.source)?.name ?? '');
      const source = await this.place(name);
      try {
        await dropMoved(this.home, { move, source, followedMs, onDeleted: () => {} });
      } finally {
        await end([source]);
      }
    }
  }
}

/** Publishes transactions to stores of one database. */
export function publisherOn(sql: Sql): (storeId: number, ids: readonly number[]) => Promise<PublishedEvent[]> {
  const publish = createPublisher({
    sql,
    allocateIds: createIdAllocator(() => performance.now()),
    baseUrl: 'http://localhost:8080',
    metrics: createPublishMetrics(new Registry()),
    batchRows: 500,
    batchBytes: 4 * 1024 * 1024,
    batchesAtOnce: 4,
    waitingBytes: 64 * 1024 * 1024,
    onCommitted: () => {},
    onUnknown: () => {},
  });
  return (storeId, ids) => {
    const events = ids.map((id) => ({
      type: 'transaction' as const,
      action: 'created',
      resourceId: String(id),
      modifiedAt: null,
      body: JSON.stringify({ id, customer_id: `c${id}`, total: 9.5 }),
    }));
    return publish({ storeId, events, now: new Date() });
  };
}

/** Inserts a store into the home database with a webhook, and a row in each table whose rows no publish makes. */
export async function addStore(home: Sql, shard: number): Promise<number> {
  const [store, webhook] = [idOf(10, shard), idOf(11, shard)];
  const [day] = [dayOf(new Date())];
  const id = firstIdOfDay(day) + 2 ** 29 * SHARDS + shard;
  await home`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${shard}, ${store}, 'Store', ${`s${shard}.example.com`}, 'a@example.com', 'UTC', now(), now())`;
  await home`
    insert into webhook (shard, id, store_id, name, format, version, url, encryption_key, event_resource, events, is_active,
      headers, retry_profile, date_created, date_modified)
    values (${shard}, ${webhook}, ${store}, 'hook', 'json', '2', 'http://127.0.0.1:9/', 'k', 'transaction',
      array['transaction/created'], true, '{}', 'hour', now(), now())`;
  await home`
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
    values (${shard}, ${id}, ${store}, ${webhook}, ${id}, 'failed', 1, now())`;
  await home`
    insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome)
    values (${shard}, ${id}, 1, ${store}, ${webhook}, ${id}, now(), 5, 'refused')`;
  await home`insert into day_count (shard, owner_id, list, day, rows) values (${shard}, ${store}, 'event', ${day}, 3)`;
  await home`
    insert into day_kind_count (shard, owner_id, list, day, kind, rows) values (${shard}, ${store}, 'event', ${day}, 'x', 3)`;
  await home`
    insert into delivery_order (shard, delivery_id, webhook_id, resource_key, version)
    values (${shard}, ${id}, ${webhook}, 1, 1)`;
  await home`insert into delivery_suspect (shard, delivery_id, fence) values (${shard}, ${id}, 0)`;
  await home`
    insert into erased_chain (shard, id, store_id, event_id, date_erased) values (${shard}, ${id}, ${store}, ${id}, now())`;
  await home`insert into erased_customer (shard, store_id, id, date_erased) values (${shard}, ${store}, 'c', now())`;
  await home`insert into erased_event (shard, id, store_id, date_erased) values (${shard}, ${id}, ${store}, now())`;
  await home`
    insert into erased_resource (shard, store_id, type, id, version) values (${shard}, ${store}, 'customer', 'c', 1)`;
  await home`
    insert into idempotency_key (scope, shard, body_hash, answer, date_created)
    values (${Buffer.alloc(32, shard)}, ${shard}, ${Buffer.alloc(32)}, ${Buffer.from('sealed')}, now())`;
  await home`insert into erased_store (shard, id, date_erased) values (${shard}, ${idOf(12, shard)}, now())`;
  await home`
    insert into publish_key (shard, store_id, key, fingerprint, event_ids, date_created)
    values (${shard}, ${store}, 'k', ${Buffer.alloc(32)}, array[${id}::bigint], now())`;
  await home`
    insert into recovery (shard, id, store_id, webhook_id, epoch, since, state, older_transactions, date_created,
      date_modified)
    values (${shard}, ${idOf(13, shard)}, ${store}, ${webhook}, 0, now(), 'waiting', '{}', now(), now())`;
  await home`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at) values (${shard}, ${store}, now(), now(), now())`;
  await home`insert into revenue_day (shard, store_id, day, resource_id) values (${shard}, ${store}, now(), 'r')`;
  await home`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    values (${shard}, ${store}, 's', now(), 'EUR', 9.5, true)`;
  await home`
    insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
    values (${shard}, ${webhook}, now(), 'delivered', 1, array[5])`;
  await home`update webhook set url = 'http://127.0.0.1:10/', revision = 2 where shard = ${shard} and id = ${webhook}`;
  await home`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures) values (${shard}, ${webhook}, 0, 0)`;
  return store;
}

/** Returns how many rows of the shards each table has, of all tables that a move between other databases copies. */
export async function countRows(sql: Sql, shards: readonly number[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of await listMovedTables(sql, { withStores: true })) {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from ${sql(table)} where shard = any(${shards}::smallint[])`;
    counts[table] = row?.count ?? 0;
  }
  return counts;
}
