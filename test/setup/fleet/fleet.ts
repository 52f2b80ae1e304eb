/**
 * Workers and publishers as processes, on their own PostgreSQL, under load: the target of the fault tests. Whatever
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
import { cleanups, type Cleanups } from '../cleanups.ts';
import { freePort } from '../free-port.ts';
import { until } from '../until.ts';
import { auditCounts, recordedAttempts, startAudit, strangeArrivals, strangeWrites } from './audit.ts';
import { Ledger, suspensionsIn } from './ledger.ts';
import { LOAD, startLoad, type Load } from './load.ts';
import { startProgram, type Program, type Ready } from './program.ts';
import { populate, type Populated } from './population.ts';
import { receiveInto } from './receiver.ts';
import { openServer, type OwnServer, type SocketAddress } from './server.ts';

const ROOT = join(import.meta.dirname, '../../..');
const PATIENCE_MS = 90_000;
/** A publisher waits at this many unfinished deliveries: enough to keep every slot busy, few enough to finish. */
const UNDER_WAY = 1_500;

/** A running worker: `life` is the prefix of its headers, and its name in the ledger. */
export type Life = Program & { life: string };

export type Settings = Readonly<Record<string, string>>;

export type Fleet = {
  ends: Cleanups;
  server: OwnServer;
  /** The test's own connections, whose writes are no worker's. */
  sql: Sql;
  ledger: Ledger;
  load: Load;
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
  /** The database address of the processes: the server itself, or a proxy before it. */
  databaseEnv?: Settings;
  /** The tree whose migrations the fleet starts with. */
  root?: string;
  leaseMs?: number;
  slots?: number;
  /** False if PostgreSQL has another clock than the test. */
  isClockTrue?: boolean;
};

export function databaseEnvOf({ directory, user, password, database }: SocketAddress): Record<string, string> {
  return {
    DATABASE_URL: `postgres:///${database}`,
    PGHOST: directory,
    PGUSER: user,
    PGPASSWORD: password,
  };
}

async function assertSettled(
  t: TestContext,
  { sql, ledger, load }: Pick<Fleet, 'sql' | 'ledger' | 'load'>,
  isClockTrue: boolean,
): Promise<void> {
  const missing = () => [...load.accepted].filter((delivery) => !ledger.wasDelivered(delivery));
  await until(
    async () => missing().length,
    (count) => count === 0,
    PATIENCE_MS,
  ).catch(() => {});
  const pending = () => sql<{ n: number }[]>`select count(*) as n from delivery`;
  await until(pending, ([row]) => row?.n === 0, PATIENCE_MS).catch(() => {});
  const [recorded] = await sql<{ successful: number; failed: number; pending: number }[]>`
    select count(*) filter (where state = 'successful') as successful, count(*) filter (where state = 'failed') as failed,
      (select count(*) from delivery) as pending
    from delivery_done`;
  const counts = await auditCounts(sql);
  const duplicates = ledger.duplicates();
  const unexplained = ledger.unexplained(await recordedAttempts(sql));
  t.diagnostic(
    `accepted ${load.accepted.size} deliveries (${load.silent} without a response, ${load.later} refused for now)`,
  );
  t.diagnostic(
    `arrived ${ledger.arrivals.length}, twice ${duplicates.length}, ${unexplained.length} of them unexplained`,
  );
  t.diagnostic(`${ledger.faults.length} faults, ${ledger.suspensions().length} workers suspended themselves`);
  t.diagnostic(`${counts.writes} writes of workers audited, ${counts.takeOvers} take-overs`);
  assert.deepEqual(load.unexpected, [], 'every publish succeeds or gets a request to retry');
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
  assert.deepEqual((await strangeWrites(sql)).slice(0, 5), [], 'no worker writes for a shard that it does not own');
  assert.ok(counts.writes > 0);
  if (isClockTrue)
    assert.deepEqual(
      (await strangeArrivals(sql, ledger)).slice(0, 5),
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

/** Opens the fleet without workers and publishers, over a migrated database with stores on many shards. */
export async function openFleet(given: Given = {}): Promise<Fleet> {
  const ends = given.ends ?? cleanups();
  const server = given.server ?? (await openServer(ends));
  const sql = openPool(server.address, { connections: 4, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  await migrate(sql, join(given.root ?? ROOT, 'migrations'));
  // An older version creates its own partitions: the sequences of this version would conflict with its migration.
  if (given.root === undefined) await maintainPartitions(sql, { now: new Date(), retentionDays: 30, daysAhead: 3 });
  const ledger = new Ledger();
  const origins = await receiveInto(ledger, ends);
  const secretKey = randomBytes(32);
  const population: Populated = await populate(sql, { origins, secretKey });
  await startAudit(sql);
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
  let load: Load | undefined;
  ends.after(async () => {
    load?.abandon();
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
  const loadOf = (): Load => load ?? assert.fail('publishing has not started');
  return {
    ends,
    server,
    sql,
    ledger,
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
      const { places } = population;
      const token = await population.platformToken(originsUp()[0] ?? '');
      const full = (accepted: number) => accepted - ledger.deliveredOf(LOAD) > UNDER_WAY;
      load = startLoad({ places, token, origins: originsUp, full, also });
    },
    settle: async (t) => {
      await loadOf().stop();
      if (loadOf().unexpected.length > 0) {
        for (const [program, origin] of publishers) t.diagnostic(`${origin} logged: ${program.said()}`);
      }
      ledger.readSuspensions(() => workers.flatMap(({ life, said }) => suspensionsIn(life, said())));
      await assertSettled(t, { sql, ledger, load: loadOf() }, given.isClockTrue ?? true);
    },
  };
}
