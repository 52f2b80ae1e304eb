/**
 * The programs that bench/peers.ts compares, each on databases and queues of its own: Halcyon in three layouts, the floor, and Svix and
 * Outpost where `BENCH_SVIX` and `BENCH_OUTPOST` have the path of their program.
 */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { urlOf } from '../../test/setup/database.ts';
import { freePort } from '../../test/setup/free-port.ts';
import { processorMsOf } from '../../test/setup/processor-time.ts';
import { until } from '../../test/setup/until.ts';
import { startChild } from './child.ts';
import { startDatabase, type Database } from './database.ts';
import type { FloorProcess } from './floor-process.ts';
import type { Target } from './http-load-process.ts';
import { json, platformToken, publishBodies } from './platform-requests.ts';
import { startRedis } from './redis.ts';
import type { Defer } from './run.ts';
import { eventMaker, seedStores } from './seed.ts';
import { startServer, type Layout } from './server.ts';

const run = promisify(execFile);
const START_MS = 60_000;
const RECORDED_MS = 120_000;
/** Of a program's output, in the error that says why it ended. */
const SAID_LENGTH = 2_000;
const RABBIT = '/usr/lib/rabbitmq/bin/rabbitmq-server';
/** Of Outpost's example for development; each is 1 without it. */
const OUTPOST_CONCURRENCY = { PUBLISH_MAX_CONCURRENCY: '1', DELIVERY_MAX_CONCURRENCY: '100', LOG_MAX_CONCURRENCY: '1' };

type Peer = {
  settings: string;
  target: Target;
  /** Bodies of that many requests, with the member `"at":0` for the time when each is due. */
  bodies: (count: number) => string[];
  /** Milliseconds of processor time of the program, and of its databases and queues. */
  cpuMs: () => Promise<{ program: number; stores: number }>;
  /** Process ids of the program, without its databases and queues. */
  programs: () => Promise<readonly number[]>;
  /** Resolves when the results of that many deliveries are stored. */
  recorded: (deliveries: number) => Promise<void>;
};

/** Starts a peer that delivers to these addresses, a store (tenant, application) each; undefined if its program is not installed. */
export type StartPeer = (defer: Defer, urls: readonly string[]) => Promise<Peer | undefined>;

async function sum(values: readonly Promise<number>[]): Promise<number> {
  return (await Promise.all(values)).reduce((all, value) => all + value, 0);
}

/** Returns the process and those below it, without PostgreSQL. */
async function programsBelow(pid: number): Promise<number[]> {
  const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'postgres');
  if (command.startsWith('postgres')) return [];
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const below = await Promise.all(children.trim().split(' ').filter(Boolean).map(Number).map(programsBelow));
  return [pid, ...below.flat()];
}

/** Returns the memory of the processes in MiB, with their share of what several map (PSS of proc(5)). */
export async function pssMiBOf(pids: readonly number[]): Promise<number> {
  return sum(
    pids.map(async (pid) => {
      const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
      return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? Number.NaN) / 1024;
    }),
  );
}

const countIs = (count: () => Promise<readonly { n: number }[]>, wanted: number): Promise<unknown> =>
  until(count, ([row]) => (row?.n ?? 0) >= wanted, RECORDED_MS);

const paddingOf = (): string => eventMaker(256)(0).body.slice(1);

/** Halcyon in a layout, with `processes` of its own or as many as it starts by itself. */
export function halcyon(layout: Layout, processes?: number): StartPeer {
  return async (defer, urls) => {
    const env = processes === undefined ? {} : { env: { PROCESSES: String(processes) } };
    const server = await startServer(defer, layout, env);
    const { sql, origin } = server;
    const storeIds = await seedStores(sql, urls, server.secretKey);
    const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
    const authorization = `Bearer ${await platformToken(origin, platform)}`;
    const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
    return {
      settings: `PostgreSQL ${row?.version}, PROCESSES=${processes ?? 'auto'}`,
      target: { origin, path: storeIds.map((id) => `/stores/${id}/events`), authorization, headers: json },
      bodies: publishBodies(1, storeIds.map(eventMaker)),
      cpuMs: async () => {
        const { server: program, postgres: stores } = await server.cpuMs();
        return { program, stores };
      },
      programs: async () => (await Promise.all(server.programs.map(({ pid }) => programsBelow(pid)))).flat(),
      recorded: async () => {
        await until(
          () => sql`select from delivery where store_id = any (${storeIds}::bigint[]) limit 1`,
          ({ length }) => length === 0,
          RECORDED_MS,
        );
      },
    };
  };
}

export const floor: StartPeer = async (defer, urls) => {
  const { address, sql, cpuMs, settings } = await startDatabase(defer);
  const child = await startChild<FloorProcess>(defer, import.meta.resolve('./floor-process.ts'));
  const port = await freePort();
  await child.ask('start', { address, urls, port });
  const pid = await child.ask('pid', null);
  const body = `{"at":0,${paddingOf()}`;
  return {
    settings,
    target: { origin: `http://127.0.0.1:${port}`, path: urls.map((_, at) => `/events/${at}`), authorization: '' },
    bodies: (count) => Array.from({ length: count }, () => body),
    cpuMs: async () => ({ program: await child.cpuMs(), stores: await cpuMs() }),
    programs: async () => [pid],
    recorded: async (deliveries) => {
      await countIs(() => sql<{ n: number }[]>`select count(*)::float8 as n from floor_result`, deliveries);
    },
  };
};

/** Returns the URL without a host, because Go's driver prefers one to the folder of the socket. */
const socketUrlOf = ({ address }: Database): string => `${urlOf(address).replace('@localhost/', '@/')}&port=5432`;

type Program = { command: string; args: readonly string[]; env: Record<string, string>; healthUrl: string };

/** Starts a program with no environment but this one, and returns its process id once its health check responds. */
async function startProgram(defer: Defer, { command, args, env, healthUrl }: Program): Promise<number> {
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-SAID_LENGTH)));
  }
  const ended = once(child, 'exit');
  defer(async () => {
    if (child.exitCode === null) child.kill('SIGTERM');
    await ended;
  });
  const isHealthy = () =>
    fetch(healthUrl).then(
      ({ ok }) => ok,
      () => false,
    );
  const ready = until(isHealthy, (isReady) => isReady, START_MS);
  await Promise.race([
    ready,
    ended.then(() => {
      throw new Error(`${command} ended: ${said}`);
    }),
  ]);
  return child.pid ?? Number.NaN;
}

function requesting(origin: string, authorization: string) {
  return async (method: string, path: string, body: object): Promise<{ id?: string }> => {
    const headers = { authorization, 'content-type': 'application/json' };
    const response = await fetch(origin + path, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as { id?: string };
  };
}

/** Svix with PostgreSQL and Redis, with the settings that it has by itself. */
export const svix: StartPeer = async (defer, urls) => {
  const command = process.env['BENCH_SVIX'];
  const redis = command === undefined ? undefined : await startRedis(defer);
  if (command === undefined || redis === undefined) return undefined;
  const database = await startDatabase(defer);
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const env = {
    SVIX_DB_DSN: urlOf(database.address),
    SVIX_REDIS_DSN: redis.url,
    SVIX_JWT_SECRET: randomBytes(16).toString('hex'),
    SVIX_LISTEN_ADDRESS: `127.0.0.1:${port}`,
    SVIX_WHITELIST_SUBNETS: '["127.0.0.0/8"]',
  };
  const pid = await startProgram(defer, {
    command,
    args: ['--run-migrations'],
    env,
    healthUrl: `${origin}/api/v1/health/`,
  });
  const { stdout } = await run(command, ['jwt', 'generate'], { env });
  const authorization = `Bearer ${/eyJ\S+/.exec(stdout)?.[0]}`;
  const request = requesting(origin, authorization);
  const paths = await Promise.all(
    urls.map(async (url, at) => {
      const { id } = await request('POST', '/api/v1/app/', { name: `Store ${at}` });
      await request('POST', `/api/v1/app/${id}/endpoint/`, { url: `${url}/`, version: 1 });
      return `/api/v1/app/${id}/msg/`;
    }),
  );
  const body = `{"eventType":"transaction_log.created","payload":{"at":0,${paddingOf()}}`;
  const { sql } = database;
  return {
    settings: `its own settings, ${redis.settings}, ${database.settings}`,
    target: { origin, path: paths, authorization, headers: { 'content-type': 'application/json' } },
    bodies: (count) => Array.from({ length: count }, () => body),
    cpuMs: async () => ({
      program: await processorMsOf(String(pid)),
      stores: await sum([database.cpuMs(), redis.cpuMs()]),
    }),
    programs: async () => [pid],
    recorded: async (deliveries) => {
      await countIs(() => sql<{ n: number }[]>`select count(*)::float8 as n from messageattempt`, deliveries);
    },
  };
};

const isListening = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1');
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isOpen;
};

/** RabbitMQ in a temporary folder, as Debian installs it; undefined if it is not installed. */
async function startRabbit(defer: Defer): Promise<{ url: string; cpuMs: () => Promise<number> } | undefined> {
  if (!existsSync(RABBIT)) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-rabbit-'));
  defer(() => rm(folder, { recursive: true, force: true }));
  const [port, names] = [await freePort(), await freePort()];
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    RABBITMQ_NODENAME: `bench${port}@localhost`,
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(await freePort()),
    RABBITMQ_MNESIA_BASE: folder,
    RABBITMQ_LOG_BASE: folder,
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
    RABBITMQ_PID_FILE: join(folder, 'pid'),
    ERL_EPMD_PORT: String(names),
  };
  const child = spawn(RABBIT, { env, stdio: 'ignore' });
  const ended = once(child, 'exit');
  defer(async () => {
    child.kill('SIGTERM');
    await ended;
    // Erlang leaves its name server running.
    await run('epmd', ['-port', String(names), '-kill']);
  });
  await until(
    () => isListening(port),
    (isOpen) => isOpen,
    START_MS,
  );
  return { url: `amqp://guest:guest@127.0.0.1:${port}`, cpuMs: () => processorMsOf(String(child.pid)) };
}

/** Outpost with Redis, RabbitMQ and PostgreSQL for its log; with the concurrency of its own example of a configuration. */
export const outpost: StartPeer = async (defer, urls) => {
  const command = process.env['BENCH_OUTPOST'];
  const [redis, rabbit] = command === undefined ? [] : [await startRedis(defer), await startRabbit(defer)];
  if (command === undefined || redis === undefined || rabbit === undefined) return undefined;
  const database = await startDatabase(defer);
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const key = randomBytes(16).toString('hex');
  const { hostname, port: redisPort } = new URL(redis.url);
  const env = {
    API_PORT: String(port),
    API_KEY: key,
    API_JWT_SECRET: key,
    AES_ENCRYPTION_SECRET: key,
    POSTGRES_URL: socketUrlOf(database),
    REDIS_HOST: hostname,
    REDIS_PORT: redisPort,
    RABBITMQ_SERVER_URL: rabbit.url,
    TOPICS: 'transaction_log.created',
    DISABLE_TELEMETRY: 'true',
    LOG_BATCH_THRESHOLD_SECONDS: '1',
    ...OUTPOST_CONCURRENCY,
  };
  await run(command, ['migrate', 'apply', '--yes'], { env });
  const healthUrl = `${origin}/api/v1/healthz`;
  const pid = await startProgram(defer, { command: `${command}-server`, args: [], env, healthUrl });
  const authorization = `Bearer ${key}`;
  const request = requesting(origin, authorization);
  await Promise.all(
    urls.map(async (url, at) => {
      await request('PUT', `/api/v1/tenants/store${at}`, {});
      const config = { url: `${url}/` };
      await request('POST', `/api/v1/tenants/store${at}/destinations`, { type: 'webhook', topics: '*', config });
    }),
  );
  const { sql } = database;
  const bodyOf = (at: number): string =>
    `{"tenant_id":"store${at % urls.length}","topic":"transaction_log.created","data":{"at":0,${paddingOf()}}`;
  return {
    settings: `${JSON.stringify(OUTPOST_CONCURRENCY)}, RabbitMQ, ${redis.settings}, ${database.settings}`,
    target: { origin, path: '/api/v1/publish', authorization, headers: { 'content-type': 'application/json' } },
    bodies: (count) => Array.from({ length: count }, (_, at) => bodyOf(at)),
    cpuMs: async () => ({
      program: await processorMsOf(String(pid)),
      stores: await sum([database.cpuMs(), redis.cpuMs(), rabbit.cpuMs()]),
    }),
    programs: async () => [pid],
    recorded: async (deliveries) => {
      await countIs(() => sql<{ n: number }[]>`select count(*)::float8 as n from attempts`, deliveries);
    },
  };
};
