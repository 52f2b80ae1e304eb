/** Halcyon as its users run it: the program in processes of its own, embedded PostgreSQL or one beside it. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { findRunning, findServer } from '#db/embedded.ts';
import { SHARDS } from '#core/ids.ts';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { placeForFixture } from '../../test/setup/fixture.ts';
import { freePort } from '../../test/setup/free-port.ts';
import { processorMsOf } from '../../test/setup/processor-time.ts';
import { databaseEnvOf, urlOf } from '../../test/setup/database.ts';
import { startDatabase, type Database } from './database.ts';
import type { Defer } from './run.ts';

/** `BENCH_PROGRAM=dist/server/main.js` measures the built program. */
const MAIN = join(import.meta.dirname, '../..', process.env['BENCH_PROGRAM'] ?? 'src/main.ts');

type Program = {
  pid: number;
  metricsOrigin: string;
  /** Milliseconds of processor time of the program, without PostgreSQL. */
  cpuMs: () => Promise<number>;
  end: (signal: NodeJS.Signals) => Promise<void>;
};

/** How Halcyon is run: `npm start`; `serve` with a PostgreSQL; the same with delivery in another process. */
export type Layout = 'embedded' | 'external' | 'apart';

export type RunningServer = {
  origin: string;
  /** The home database. */
  sql: Sql;
  /** All databases, the home database first. */
  databases: readonly Sql[];
  secretKey: Buffer;
  programs: readonly Program[];
  cpuMs: () => Promise<{ server: number; postgres: number }>;
  /** The sum and the number of observations of a histogram, over all programs. */
  histogram: (name: string) => Promise<{ sum: number; count: number }>;
};

async function startProgram(
  args: readonly string[],
  env: Record<string, string | undefined>,
  execArgv: readonly string[],
  defer: Defer,
): Promise<Program> {
  const metricsPort = await freePort();
  const child = spawn(process.execPath, [...execArgv, MAIN, ...args], {
    env: { ...env, METRICS_PORT: String(metricsPort) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const exited = once(child, 'exit');
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await exited;
  };
  defer(() => end('SIGTERM'));
  let said = '';
  const { promise: ready, resolve } = Promise.withResolvers<true>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-10_000);
      if (/ is (?:ready|delivering)\./.test(said)) resolve(true);
    });
  }
  if ((await Promise.race([ready, exited])) !== true || child.pid === undefined) throw new Error(said);
  const { pid } = child;
  return {
    pid,
    metricsOrigin: `http://127.0.0.1:${metricsPort}`,
    cpuMs: () => processorMsOf(String(pid)),
    end,
  };
}

async function readHistogram({ metricsOrigin }: Program, name: string): Promise<[number, number]> {
  const text = await (await fetch(`${metricsOrigin}/metrics`)).text();
  const value = (part: string) => Number(new RegExp(`^${name}_${part}(?:{[^}]*})? (.*)$`, 'm').exec(text)?.[1] ?? 0);
  return [value('sum'), value('count')];
}

async function total(values: readonly Promise<number>[]): Promise<number> {
  return (await Promise.all(values)).reduce((sum, value) => sum + value, 0);
}

/** Divides the shards evenly among these databases, the home database first. */
function divided(addresses: readonly DatabaseAddress[]): Record<string, string> {
  const [home = ''] = addresses.map(urlOf);
  const first = (at: number): number => Math.round((SHARDS * at) / addresses.length);
  const ranges = addresses.map((address, at) => `${first(at)}-${first(at + 1) - 1}=${urlOf(address)}`);
  return { DATABASE_URL: home, SHARD_DATABASES: ranges.join(' ') };
}

/**
 * Starts Halcyon without a rate limit, on ports of its own. If PostgreSQL is external: `observed`: with pg_stat_statements;
 * `servers`: the number of PostgreSQL servers, over which the stores are divided.
 */
export async function startServer(
  defer: Defer,
  layout: Layout,
  given: { env?: Record<string, string>; execArgv?: readonly string[]; observed?: boolean; servers?: number } = {},
): Promise<RunningServer> {
  const secretKey = randomBytes(32);
  const place = await placeForFixture();
  defer(place.remove);
  const common = {
    ...place.env,
    API_RATE_PER_SECOND: '0',
    HALCYON_SECRET_KEY: secretKey.toString('hex'),
    OUTBOUND_ALLOW: '127.0.0.0/8',
    ...given.env,
  };
  const start = (args: readonly string[], env: Record<string, string> = {}) =>
    startProgram(args, { ...common, ...env }, given.execArgv ?? [], defer);
  const open = async (): Promise<{ databases: Sql[]; programs: Program[]; postgresMs: () => Promise<number> }> => {
    if (layout === 'embedded') {
      const programs = [await start(['serve'])];
      const [address, pid] = [await findRunning(place.dataDir), await findServer(place.dataDir)];
      if (address === undefined || pid === undefined) throw new Error('No embedded PostgreSQL');
      const sql = openPool(address, { connections: 4, applicationName: 'bench' });
      defer(() => sql.end({ timeout: 0 }));
      return { databases: [sql], programs, postgresMs: () => processorMsOf(String(pid)) };
    }
    const started = [await startDatabase(defer, given.observed)];
    while (started.length < (given.servers ?? 1)) started.push(await startDatabase(defer, given.observed));
    const [{ address }] = started as [Database];
    const env = started.length === 1 ? databaseEnvOf(address) : divided(started.map((database) => database.address));
    const programs =
      layout === 'apart'
        ? [await start(['deliver'], env), await start(['serve', '--no-deliver'], env)]
        : [await start(['serve'], env)];
    return {
      databases: started.map(({ sql }) => sql),
      programs,
      postgresMs: () => total(started.map(({ cpuMs }) => cpuMs())),
    };
  };
  const { databases, programs, postgresMs } = await open();
  const [sql] = databases as [Sql];
  return {
    origin: `http://127.0.0.1:${place.env['PORT']}`,
    sql,
    databases,
    secretKey,
    programs,
    cpuMs: async () => ({ server: await total(programs.map(({ cpuMs }) => cpuMs())), postgres: await postgresMs() }),
    histogram: async (name) => {
      const all = await Promise.all(programs.map((program) => readHistogram(program, name)));
      return { sum: all.reduce((sum, [one]) => sum + one, 0), count: all.reduce((sum, [, one]) => sum + one, 0) };
    },
  };
}
