/**
 * Deliveries per second by the number of processes (`PROCESSES`), from the request that publishes to the receiver. Where the machine
 * has enough cores, the program, and everything else (load, receiver, PostgreSQL), are pinned to cores of their own (taskset).
 * A model of the measured CPU time predicts larger machines. `--processes 4` measures 1, 2 and 4.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { processorMsOf } from '../test/setup/processor-time.ts';
import { until } from '../test/setup/until.ts';
import { startChild } from './setup/child.ts';
import type { HttpLoadProcess } from './setup/http-load-process.ts';
import type { ReceiverProcess } from './setup/receiver-process.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { eventMaker, seedStores } from './setup/seed.ts';
import { startServer, type RunningServer } from './setup/server.ts';
import { quantile, spread, table } from './setup/table.ts';

const numbers = { rounds: 3, count: 20_000, processes: 2, connections: 64, stores: 100, seconds: 5 };
const ARRAY = 20;
const PACE = 100;
const WARM_UP_ROUNDS = 2;
const PATIENCE_MS = 120_000;
const PREDICTED_CORES = [8, 32];
const CORES = availableParallelism();

const run = promisify(execFile);

const childrenOf = async (pid: number): Promise<number[]> =>
  (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').filter(Boolean).map(Number);

/**
 * Returns CPU lists for the program and for everything else; undefined if the cores do not suffice to separate them for every
 * number of processes, because CPU times of pinned and unpinned programs cannot be compared.
 */
const coresFor = (processes: number, most: number): { program: string; others: string } | undefined =>
  most < CORES ? { program: `0-${processes - 1}`, others: `${processes}-${CORES - 1}` } : undefined;

async function pin(pids: readonly number[], cores: string): Promise<void> {
  for (const pid of pids) await run('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(pid)]);
}

/** Pins the processes of PostgreSQL; those of later connections inherit it from the postmaster, which is their parent. */
async function pinPostgres({ sql }: RunningServer, cores: string): Promise<void> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  const status = await readFile(`/proc/${row?.pid}/status`, 'utf8');
  const postmaster = Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
  await pin([postmaster, ...(await childrenOf(postmaster))], cores);
}

async function platformTokenOf({ origin, sql }: RunningServer): Promise<string> {
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
  const body = new URLSearchParams({ grant_type: 'client_credentials', ...platform });
  const response = await fetch(`${origin}/token`, { method: 'POST', body });
  return ((await response.json()) as { access_token: string }).access_token;
}

type Round = {
  perSecond: number;
  /** CPU time per delivery in µs: of all processes, of the supervisor, of PostgreSQL. */
  processes: number;
  supervisor: number;
  postgres: number;
};
type Latency = { p50: number; p95: number };

async function measure(options: typeof numbers, processes: number, defer: Defer) {
  const server = await startServer(defer, 'external', { env: { PROCESSES: String(processes) } });
  const { origin, sql } = server;
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./setup/receiver-process.ts'));
  const urls = await receiver.ask('listen', { ports: options.stores, pair: undefined });
  const stores = await seedStores(sql, urls, server.secretKey);
  const makers = stores.map(eventMaker);
  const token = await platformTokenOf(server);
  const [program] = server.programs;
  if (program === undefined) throw new Error('No program');
  const children = processes === 1 ? [] : await childrenOf(program.pid);
  const cores = coresFor(processes, options.processes);
  if (cores !== undefined) {
    await pin([program.pid, ...children], cores.program);
    await pin(
      [process.pid, ...(await childrenOf(process.pid))].filter((pid) => pid !== program.pid),
      cores.others,
    );
    await pinPostgres(server, cores.others);
  }
  await until(
    () =>
      sql`select from shard_lease where owner is not null group by owner having count(*) >= ${Math.floor(256 / processes)}`,
    ({ length }) => length === processes,
    PATIENCE_MS,
  );

  let n = 0;
  const eventOf = (store: number): string => {
    const { body } = makers[store % makers.length]?.((n += 1)) ?? { body: '{}' };
    return `{"event":"transaction_log/created","resource":{"at":0,${body.slice(1)}}`;
  };
  const bodies = (count: number, arrayOf: number): string[] =>
    Array.from({ length: count }, (_, at) =>
      arrayOf === 1 ? eventOf(at) : `[${Array.from({ length: arrayOf }, () => eventOf(at)).join(',')}]`,
    );
  const target = {
    origin,
    path: stores.map((id) => `/stores/${id}/events`),
    authorization: `Bearer ${token}`,
    headers: { 'service-api-version': '1', 'content-type': 'application/json' },
  };
  const { connections } = options;
  const cpu = async () => {
    const { server: all, postgres } = await server.cpuMs();
    const own = await Promise.all(children.map((pid) => processorMsOf(String(pid))));
    const inChildren = own.reduce((sum, ms) => sum + ms, 0);
    return children.length === 0
      ? { processes: all, supervisor: 0, postgres }
      : { processes: inChildren, supervisor: all - inChildren, postgres };
  };
  const untilRecorded = () =>
    until(
      () => sql`select from delivery limit 1`,
      ({ length }) => length === 0,
      PATIENCE_MS,
    );
  const round = async (): Promise<Round> => {
    const requests = Math.ceil(options.count / ARRAY);
    const deliveries = requests * ARRAY;
    const given = bodies(requests, ARRAY);
    const before = await cpu();
    const startedMs = performance.now();
    const arrived = receiver.ask('until', deliveries);
    const { failures } = await load.ask('burst', { target, bodies: given, connections, keeps: false });
    if (failures.length > 0) throw new Error(failures[0]);
    await arrived;
    const ms = performance.now() - startedMs;
    await untilRecorded();
    const after = await cpu();
    const each = (part: keyof typeof after): number => ((after[part] - before[part]) / deliveries) * 1_000;
    return {
      perSecond: (deliveries / ms) * 1_000,
      processes: each('processes'),
      supervisor: each('supervisor'),
      postgres: each('postgres'),
    };
  };
  const latency = async (): Promise<Latency> => {
    await receiver.ask('startTiming', null);
    const count = PACE * options.seconds;
    const given = { target, bodies: bodies(count, 1), connections, perSecond: PACE, seconds: options.seconds };
    const { failures } = await load.ask('stream', given);
    if (failures.length > 0) throw new Error(failures[0]);
    await until(
      () => receiver.ask('timed', null),
      (timed) => timed >= count,
      PATIENCE_MS,
    );
    return receiver.ask('stopTiming', null);
  };
  for (let warm = 0; warm < WARM_UP_ROUNDS; warm += 1) await round();
  const rounds: Round[] = [];
  const latencies: Latency[] = [];
  for (let at = 0; at < options.rounds; at += 1) {
    rounds.push(await round());
    latencies.push(await latency());
  }
  await program.end('SIGTERM');
  return { processes, rounds, latencies, isPinned: cores !== undefined };
}

type Measured = Awaited<ReturnType<typeof measure>>;

const medianOf = ({ rounds }: Measured, key: keyof Round): number =>
  quantile(
    rounds.map((one) => one[key]),
    0.5,
  );

/**
 * Returns the deliveries per second of a machine whose cores run only the processes and PostgreSQL, if both divide their work evenly:
 * the supervisor has one core at most, and the cost of passing a delivery on grows with the share of deliveries that cross.
 */
function predict(single: Measured, several: Measured, cores: number): number {
  const crossing = (processes: number): number => (processes - 1) / processes;
  const [alone, shared] = [medianOf(single, 'processes'), medianOf(several, 'processes')];
  const passing = Math.max(0, shared - alone) / crossing(several.processes);
  const supervisor = (medianOf(several, 'supervisor') / crossing(several.processes)) * crossing(cores);
  const each = alone + passing * crossing(cores) + supervisor + medianOf(several, 'postgres');
  return Math.min((cores * 1e6) / each, 1e6 / supervisor);
}

await bench({ numbers }, async (options, defer) => {
  const measured: Measured[] = [];
  for (let processes = 1; processes <= options.processes; processes *= 2)
    measured.push(await measure(options, processes, defer));
  heading(
    `${CORES} cores; arrays of ${ARRAY} events, ${options.rounds} rounds of ${options.count}; median (lowest–highest)`,
  );
  table(
    [
      'processes',
      'a second',
      'processes µs',
      'supervisor µs',
      'PostgreSQL µs',
      `p50 ms at ${PACE}/s`,
      'p95 ms',
      'pinned',
    ],
    measured.map(({ processes, rounds, latencies, isPinned }) => [
      String(processes),
      ...(['perSecond', 'processes', 'supervisor', 'postgres'] as const).map((key) =>
        spread(rounds.map((one) => one[key])),
      ),
      ...(['p50', 'p95'] as const).map((key) =>
        spread(
          latencies.map((one) => one[key]),
          1,
        ),
      ),
      isPinned ? 'apart' : 'no',
    ]),
  );
  const [single, several] = [measured[0], measured.at(-1)];
  if (single === undefined || several === undefined || single === several) return;
  for (const cores of PREDICTED_CORES)
    print(
      `Predicted for ${cores} cores and as many processes: ${Math.round(predict(single, several, cores))} deliveries a second`,
    );
  print(
    'The prediction leaves out load and receivers, takes all additional CPU time as the cost of passing on, and assumes that PostgreSQL uses all cores as well as these two.',
  );
});
