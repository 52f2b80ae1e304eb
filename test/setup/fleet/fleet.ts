/**
 * Workers and publishers as processes, on their own PostgreSQL or several, under load: the target of the fault tests. Whatever
 * they do to it, `settle` asserts what always holds: every accepted delivery arrived and is recorded, every duplicate is
 * explained by a fault, and no worker wrote for a shard that it did not own.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { migrate } from '#db/migrate.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { Range } from '#shards/map.ts';
import { cleanups, type Cleanups } from '../cleanups.ts';
import { writeMap } from '../divided.ts';
import { freePort } from '../free-port.ts';
import { until } from '../until.ts';
import { auditCounts, readLives, recordedAttempts, startAudit, strangeArrivals, strangeWrites } from './audit.ts';
import { Ledger, suspensionsIn, type Duplicate } from './ledger.ts';
import { LOAD, startLoad, type Load, type Place } from './load.ts';
import { startProgram, type Program, type Ready } from './program.ts';
import { populate, POPULATED, type Populated } from './population.ts';
import { receiveInto } from './receiver.ts';
import { databaseEnvOf } from '../database.ts';
import { openServer, type OwnServer } from './server.ts';

const ROOT = join(import.meta.dirname, '../../..');
const PATIENCE_MS = 90_000;
const NEAR_MS = 5_000;
/** A publisher waits at this many unfinished deliveries: enough to keep every slot busy, few enough to finish. */
const UNDER_WAY = 1_500;

/** A running worker: `life` is the prefix of its headers, and its name in the ledger. */
export type Life = Program & { life: string };

export type Settings = Readonly<Record<string, string>>;

export type Fleet = {
  ends: Cleanups;
  server: OwnServer;
  /** The test's own connections, whose writes are no worker's; to the home database, if there are several. */
  sql: Sql;
  /** Those to each database, the home database first. */
  databases: readonly Sql[];
  /** The stores of each database. */
  places: readonly (readonly Place[])[];
  ledger: Ledger;
  /** The first of `loads`. */
  load: Load;
  /** One for the stores of each database. */
  loads: readonly Load[];
  /** Returns the token of the platform. */
  token: () => Promise<string>;
  /** The key that encrypts the keys of the webhooks; every process has it unless it is given another. */
  secretKey: Buffer;
  /** Starts a worker, from the tree at `root` if given. */
  startWorker: (given?: { root?: string; env?: Settings }) => Promise<Life>;
  /** Starts a `serve --no-deliver` to publish through. */
  startPublisher: (given?: { root?: string; env?: Settings }) => Promise<Program>;
  /** The origins of running publishers. */
  origins: () => readonly string[];
  /** Starts publishing; needs a publisher. `also`: events published with each array, without a subscriber. */
  startLoad: (also?: readonly object[]) => Promise<void>;
  /** Ends the load and asserts what always holds. */
  settle: (t: TestContext) => Promise<void>;
};

type Given = {
  /** Cleanups run after those registered here before. */
  ends?: Cleanups;
  /** Another server instead of its own. */
  server?: OwnServer;
  /** Further servers with these shards; the home database has the shards before them. */
  others?: readonly { server: OwnServer & { url: string }; range: Range }[];
  /** The database address of the processes: the server itself, or a proxy before it. */
  databaseEnv?: Settings;
  /** The tree whose migrations the fleet starts with. */
  root?: string;
  leaseMs?: number;
  slots?: number;
  /** False if PostgreSQL has another clock than the test. */
  isClockTrue?: boolean;
};

/** Returns what the worker of a duplicate logged from shortly before the first arrival until shortly after the second. */
function evidenceOf({ before, again }: Duplicate, workers: readonly Life[]): string[] {
  const lines =
    workers
      .find(({ life }) => life === before.life)
      ?.said()
      .split('\n') ?? [];
  const near = lines.filter((line) => {
    const [, time = ''] = /"time":"([^"]+)"/.exec(line) ?? [];
    const atMs = Date.parse(time) - performance.timeOrigin;
    return before.arrivedMs - NEAR_MS < atMs && atMs < again.arrivedMs + NEAR_MS;
  });
  return [`repeated: ${JSON.stringify(before)} ${JSON.stringify(again)}`, ...near];
}

async function assertSettled(
  t: TestContext,
  { databases, ledger, loads, workers }: Pick<Fleet, 'databases' | 'ledger' | 'loads'> & { workers: readonly Life[] },
  isClockTrue: boolean,
): Promise<void> {
  const accepted = loads.flatMap((load) => [...load.accepted]);
  const sum = (of: 'silent' | 'later') => loads.reduce((all, load) => all + load[of], 0);
  const inAll = async <T>(read: (sql: Sql) => Promise<Iterable<T>>): Promise<T[]> =>
    (await Promise.all(databases.map(async (sql) => Array.from(await read(sql))))).flat();
  const missing = () => accepted.filter((delivery) => !ledger.wasDelivered(delivery));
  await until(
    async () => missing().length,
    (count) => count === 0,
    PATIENCE_MS,
  ).catch(() => {});
  const pending = () => inAll((sql) => sql`select from delivery limit 1`);
  await until(pending, ({ length }) => length === 0, PATIENCE_MS).catch(() => {});
  // Shards that have moved away leave these rows behind for a time, and have no lease.
  const recorded = { successful: 0, failed: 0, pending: 0 };
  const states = await inAll(
    (sql) => sql<{ state: keyof typeof recorded; n: number }[]>`
      select state, count(*) as n from delivery_done d
      where exists (select from webhook w where w.id = d.webhook_id and w.name = ${POPULATED})
        and shard in (select shard from shard_lease)
      group by state
      union all select 'pending', count(*) from delivery`,
  );
  for (const { state, n } of states) recorded[state] += n;
  const counts = await Promise.all(databases.map(auditCounts));
  const writes = counts.reduce((all, one) => all + one.writes, 0);
  const takeOvers = counts.reduce((all, one) => all + one.takeOvers, 0);
  const lives = await readLives(databases[0] ?? assert.fail());
  const duplicates = ledger.duplicates();
  const unexplained = ledger.unexplained(await recordedAttempts(databases, lives));
  t.diagnostic(
    `accepted ${accepted.length} deliveries (${sum('silent')} without a response, ${sum('later')} refused for now)`,
  );
  t.diagnostic(
    `arrived ${ledger.arrivals.length}, twice ${duplicates.length}, ${unexplained.length} of them unexplained`,
  );
  t.diagnostic(`${ledger.faults.length} faults, ${ledger.suspensions().length} workers suspended themselves`);
  t.diagnostic(`${writes} writes of workers audited, ${takeOvers} take-overs`);
  for (const duplicate of unexplained.slice(0, 3))
    for (const line of evidenceOf(duplicate, workers)) t.diagnostic(line);
  const unexpected = loads.flatMap((load) => load.unexpected);
  assert.deepEqual(unexpected, [], 'every publish succeeds or gets a request to retry');
  assert.deepEqual(missing(), [], 'every accepted delivery arrives');
  const all = ledger.delivered;
  assert.deepEqual(recorded, { successful: all, failed: 0, pending: 0 }, 'every arrived delivery is recorded once');
  assert.deepEqual(ledger.missigned.slice(0, 5), [], 'every request is signed with the key of its webhook');
  assert.deepEqual(
    ledger.strangeHangUps().slice(0, 5),
    [],
    'a worker disconnects only after a fault or with a log line',
  );
  assert.deepEqual(
    unexplained.slice(0, 5),
    [],
    'only attempts that were running or unrecorded at a fault are repeated',
  );
  assert.deepEqual((await inAll(strangeWrites)).slice(0, 5), [], 'no worker writes for a shard that it does not own');
  assert.ok(writes > 0);
  if (isClockTrue)
    assert.deepEqual(
      (await strangeArrivals(databases, { ledger, lives })).slice(0, 5),
      [],
      'no worker sends for a shard that it does not own',
    );
}

/** Its sessions are named after the life, for the audit, and not after the worker's id, which is unknown outside the worker. */
function named(life: string, env: Settings): Record<string, string> {
  const rename = (text: string) => `${text}${text.includes('?') ? '&' : '?'}application_name=halcyon%20${life}`;
  return Object.fromEntries(
    Object.entries(env).map(([name, text]) => [name, /^postgres(?:ql)?:/.test(text) ? rename(text) : text]),
  );
}

/** Opens connections to a migrated database with a day's partitions. */
async function openDatabase({ address }: OwnServer, ends: Cleanups, root: string | undefined): Promise<Sql> {
  const sql = openPool(address, { connections: 4, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  await migrate(sql, join(root ?? ROOT, 'migrations'));
  await maintainPartitions(sql, { now: new Date(), retentionDays: 30, daysAhead: 3 });
  return sql;
}

/** Opens the fleet without workers and publishers, over a migrated database with stores on many shards. */
export async function openFleet(given: Given = {}): Promise<Fleet> {
  const ends = given.ends ?? cleanups();
  const server = given.server ?? (await openServer(ends));
  const sql = await openDatabase(server, ends, given.root);
  const others: { sql: Sql; range: Range; url: string }[] = [];
  for (const { server: other, range } of given.others ?? [])
    others.push({ sql: await openDatabase(other, ends, given.root), range, url: other.url });
  const databases = [sql, ...others.map((other) => other.sql)];
  /** The index of the database that has a shard. */
  const indexOf = (shard: number) => 1 + others.findIndex(({ range }) => range.first <= shard && shard <= range.last);
  const ledger = new Ledger();
  const origins = await receiveInto(ledger, ends);
  const secretKey = randomBytes(32);
  const sqlOf = (shard: number): Sql => databases[indexOf(shard)] ?? sql;
  const population: Populated = await populate(sql, { origins, secretKey, sqlOf });
  const places = databases.map((_, index) =>
    population.places.filter(({ storeId }) => indexOf(shardOf(storeId)) === index),
  );
  for (const database of databases) await startAudit(database);
  const [next] = others;
  if (next !== undefined) await writeMap(sql, { first: 0, last: next.range.first - 1 }, { others, secretKey });
  const database = given.databaseEnv ?? databaseEnvOf(server.address);
  const common = {
    ...database,
    HALCYON_DATA: join(tmpdir(), 'halcyon-fleet-data'),
    HALCYON_SECRET_KEY: secretKey.toString('hex'),
    LOG_LEVEL: 'warn',
    API_RATE_PER_SECOND: '0',
    OUTBOUND_ALLOW: '127.0.0.0/8',
    DATABASE_CONNECTIONS: '8',
    DELIVERY_LEASE_MS: String(given.leaseMs ?? 1_500),
    DELIVERY_SLOTS: String(given.slots ?? 48),
  };
  const running = new Set<Program>();
  const loads: Load[] = [];
  ends.after(async () => {
    for (const load of loads) load.abandon();
    await Promise.all([...running].map((program) => program.end('SIGKILL')));
  });
  const start = async (ready: Ready, args: readonly string[], root = ROOT, env: Settings = {}): Promise<Program> => {
    const program = await startProgram({ root, args, env: { ...common, ...env }, ready });
    running.add(program);
    return program;
  };
  const publishers = new Map<Program, string>();
  const originsUp = () => [...publishers].filter(([program]) => !program.isOver()).map(([, origin]) => origin);
  let lives = 0;
  const workers: Life[] = [];
  const loadOf = (): Load => loads[0] ?? assert.fail('publishing has not started');
  const token = () => population.platformToken(originsUp()[0] ?? '');
  return {
    ends,
    server,
    sql,
    databases,
    places,
    ledger,
    loads,
    token,
    secretKey,
    get load() {
      return loadOf();
    },
    startWorker: async ({ root, env } = {}) => {
      const life = `l${(lives += 1)}`;
      const own = { WEBHOOK_HEADER_PREFIX: life, ...named(life, { ...database, ...env }) };
      const program = await start('is delivering.', ['deliver'], root, own);
      const worker = { ...program, life };
      workers.push(worker);
      return worker;
    },
    startPublisher: async ({ root, env } = {}) => {
      const port = await freePort();
      const origin = `http://127.0.0.1:${port}`;
      const program = await start('is ready.', ['serve', '--no-deliver'], root, { PORT: String(port), ...env });
      publishers.set(program, origin);
      return program;
    },
    origins: originsUp,
    startLoad: async (also = []) => {
      const toAll = { token: await token(), origins: originsUp, also };
      for (const [index, ofDatabase] of places.entries()) {
        const name = index === 0 ? LOAD : `${LOAD}${index}`;
        const full = (accepted: number) => accepted - ledger.deliveredOf(name) > UNDER_WAY / places.length;
        loads.push(startLoad({ ...toAll, places: ofDatabase, full, name }));
      }
    },
    settle: async (t) => {
      await Promise.all(loads.map((load) => load.stop()));
      if (loads.some(({ unexpected }) => unexpected.length > 0)) {
        for (const [program, origin] of publishers) t.diagnostic(`${origin} logged: ${program.said()}`);
      }
      ledger.readSuspensions(() => workers.flatMap(({ life, said }) => suspensionsIn(life, said())));
      await assertSettled(t, { databases, ledger, loads, workers }, given.isClockTrue ?? true);
    },
  };
}
