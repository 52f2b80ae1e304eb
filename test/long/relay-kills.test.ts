/**
 * `kill -9` of the relay, of Halcyon, of the database of Halcyon and of that of the shop, while rows are written: in the end each row is
 * one event, and the events of a resource are in the order of their rows.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createPool } from 'mysql2/promise';
import { openPool, type Sql } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { cleanups, type Cleanups } from '../setup/cleanups.ts';
import { runCommand } from '../setup/command.ts';
import { openServer } from '../setup/fleet/server.ts';
import { startProgram } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';
import { startMysql } from '../setup/mysql-server.ts';
import { serversOver } from '../setup/server-process.ts';
import { until } from '../setup/until.ts';

const ROOT = join(import.meta.dirname, '../..');
const KILLS = 20;
const STORES = 2;
/** Each writer has a resource of its own in each store. */
const WRITERS = 3;
/** A shop that writes faster than the relay publishes would only prolong the end. */
const WAITING_MAX = 200;
/** Events between two kills. */
const SOME = 40;
/** Each writer ends one transaction of so many with a rollback, so that ids are missing. */
const ROLLED_BACK = 7;

type Row = { resource: string; n: number };
/** The database of a shop. A row is written in one transaction with a row of `written`, which is the truth. */
type Shop = {
  url: string;
  kill: () => Promise<void>;
  start: () => Promise<void>;
  define: (tables: string) => Promise<void>;
  write: (storeId: number, row: Row, isKept: boolean) => Promise<void>;
  written: () => Promise<Row[]>;
  waiting: () => Promise<number>;
  refused: () => Promise<string[]>;
};

const WRITTEN = 'create table written (resource varchar(40) not null, n int not null, primary key (resource, n))';
const EVENT = 'transaction/modified';
const bodyOf = ({ resource, n }: Row): string => `{"id": "${resource}", "n": ${n}, "total": ${n}.50}`;

class RolledBack extends Error {}

async function openPostgres(ends: Cleanups): Promise<Shop> {
  const server = await openServer(ends);
  const sql = openPool(server.address, { connections: WRITERS + 1, applicationName: 'shop' });
  ends.after(() => sql.end({ timeout: 0 }));
  return {
    ...server,
    define: async (tables) => void (await sql.unsafe(`${tables} ${WRITTEN}`)),
    write: (storeId, row, isKept) =>
      sql.begin(async (tx) => {
        await tx`insert into written (resource, n) values (${row.resource}, ${row.n})`;
        await tx`insert into halcyon_outbox (store_id, event, resource) values (${storeId}, ${EVENT}, ${bodyOf(row)})`;
        if (!isKept) throw new RolledBack();
      }),
    written: async () => [...(await sql<Row[]>`select resource, n from written order by n`)],
    waiting: async () => (await sql`select from halcyon_outbox`).length,
    refused: async () =>
      (await sql<{ reason: string }[]>`select reason from halcyon_outbox_dead`).map(({ reason }) => reason),
  };
}

async function openMariadb(ends: Cleanups): Promise<Shop> {
  const server = await startMysql(ends, 'MariaDB');
  const pool = createPool({ uri: server.url, connectionLimit: WRITERS + 1, multipleStatements: true });
  ends.after(() => pool.end());
  const ask = async <T>(statement: string): Promise<T[]> => (await pool.query(statement))[0] as T[];
  return {
    ...server,
    define: async (tables) => void (await pool.query(`${tables} ${WRITTEN}`)),
    write: async (storeId, row, isKept) => {
      const connection = await pool.getConnection();
      try {
        await connection.beginTransaction();
        await connection.query('insert into written (resource, n) values (?, ?)', [row.resource, row.n]);
        const values = [storeId, EVENT, bodyOf(row)];
        await connection.query('insert into halcyon_outbox (store_id, event, resource) values (?, ?, ?)', values);
        if (!isKept) throw new RolledBack();
        await connection.commit();
        connection.release();
      } catch (error) {
        connection.destroy();
        throw error;
      }
    },
    written: () => ask<Row>('select resource, n from written order by n'),
    waiting: async () => (await ask('select id from halcyon_outbox')).length,
    refused: async () =>
      (await ask<{ reason: string }>('select reason from halcyon_outbox_dead')).map(({ reason }) => reason),
  };
}

/** Starts Halcyon on a PostgreSQL of its own. */
async function openHalcyon(ends: Cleanups) {
  const database = await openServer(ends);
  const key = randomBytes(32).toString('hex');
  const port = await freePort();
  const env = {
    HALCYON_SECRET_KEY: key,
    BASE_URL: `http://127.0.0.1:${port}`,
    API_RATE_PER_SECOND: '0',
    LOG_LEVEL: 'silent',
  };
  const startOn = serversOver(database.address, ends, env);
  let server = await startOn(port);
  const sql = openPool(database.address, { connections: 2, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  const now = new Date();
  const platform = await createClient(sql, { name: 'Shop', redirectUris: [], trusted: true, now });
  const storeIds: number[] = [];
  for (let n = 0; n < STORES; n += 1) {
    const store = { name: 'S', domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now };
    storeIds.push((await createStore(sql, store)).id);
  }
  const killServer = async () => {
    await server.end('SIGKILL');
    server = await startOn(port);
  };
  return { database, sql, platform, storeIds, url: env.BASE_URL, killServer };
}

/** Returns the result of a read that may meet a killed server. */
const patiently = async <T>(read: () => Promise<T>): Promise<T> => {
  const found = await until<{ value: T } | undefined>(
    () =>
      read().then(
        (value) => ({ value }),
        () => undefined,
      ),
    (one) => one !== undefined,
  );
  if (found === undefined) throw new Error('until has returned');
  return found.value;
};

async function readEvents(sql: Sql): Promise<Row[]> {
  const rows = await sql<{ resource: string; body: string }[]>`
    select resource_id as resource, body from event order by event.id`;
  return rows.map(({ resource, body }) => ({ resource, n: (JSON.parse(body) as { n: number }).n }));
}

const byResource = (rows: readonly Row[]): Record<string, number[]> =>
  Object.fromEntries(
    [...Map.groupBy(rows, ({ resource }) => resource)]
      .map(([resource, of]) => [resource, of.map(({ n }) => n)] as const)
      .toSorted(([a], [b]) => a.localeCompare(b)),
  );

async function killAll(t: TestContext, kind: 'postgres' | 'mysql', shop: Shop, ends: Cleanups): Promise<void> {
  const { database, sql, platform, storeIds, url, killServer } = await openHalcyon(ends);
  await shop.define((await runCommand(['relay', '--init', kind], {})).out);
  const env = {
    HALCYON_URL: url,
    HALCYON_CLIENT_ID: platform.client_id,
    HALCYON_CLIENT_SECRET: platform.client_secret,
    HALCYON_RELAY_FROM: shop.url,
    HALCYON_DATA: '/nonexistent',
  };
  const startRelay = () => startProgram({ root: ROOT, args: ['relay'], env, ready: 'Relaying' });
  let relay = await startRelay();
  ends.after(async () => void (await relay.end('SIGKILL')));

  const over = new AbortController();
  const write = async (writer: number): Promise<void> => {
    for (let n = 1; !over.signal.aborted; n += 1) {
      await until(
        () => patiently(shop.waiting),
        (waiting) => waiting < WAITING_MAX,
      );
      for (const [at, storeId] of storeIds.entries()) {
        // A commit without a response may have happened: the table says so.
        await shop.write(storeId, { resource: `${at}-${writer}`, n }, n % ROLLED_BACK > 0).catch(() => {});
      }
    }
  };
  const count = async () =>
    Number((await sql<{ count: number }[]>`select count(*)::int as count from event`)[0]?.count);
  const victims = [
    async () => {
      await relay.end('SIGKILL');
      relay = await startRelay();
    },
    killServer,
    async () => {
      await shop.kill();
      await shop.start();
    },
    async () => {
      await database.kill();
      await database.start();
    },
  ];
  const writers = Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
  try {
    for (let kills = 0; kills < KILLS; kills += 1) {
      const enough = (await patiently(count)) + SOME;
      await until(
        () => patiently(count),
        (published) => published >= enough,
      );
      await victims[kills % victims.length]?.();
    }
  } finally {
    over.abort();
  }
  await writers;
  await until(
    () => patiently(shop.waiting),
    (waiting) => waiting === 0,
  );
  assert.equal(relay.isOver(), false, relay.said());
  assert.equal(await relay.end('SIGTERM'), 0, relay.said());
  const written = await shop.written();
  const events = await readEvents(sql);
  t.diagnostic(
    `${written.length} rows, ${events.length} events, ${relay.said().split('\n').length} lines of the last relay`,
  );
  assert.deepEqual(await shop.refused(), []);
  assert.deepEqual(byResource(events), byResource(written));
  assert.ok(written.length > KILLS * SOME);
}

const SHOPS = { postgres: openPostgres, mysql: openMariadb } as const;

for (const [kind, open] of Object.entries(SHOPS)) {
  test(`each row of an outbox in ${kind} is one event, whatever is killed`, async (t) => {
    const ends = cleanups();
    await killAll(t, kind as keyof typeof SHOPS, await open(ends), ends);
  });
}
