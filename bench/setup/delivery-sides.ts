/** The sides of P1: Halcyon, a bare undici loop, and two queues that are used for webhooks. */
import { until } from '../../test/setup/until.ts';
import { AT_ONCE } from './bare-sender.ts';
import type { BareProcess } from './bare-process.ts';
import { startChild, type Child } from './child.ts';
import type { EngineProcess } from './engine-process.ts';
import { startRedis } from './redis.ts';
import type { RivalLoad, RivalProcess } from './rival-load.ts';
import type { Defer } from './run.ts';
import { publishAndRecord, type Recorded, type Scene } from './scene.ts';

type Costs = { cpuMs: () => Promise<number> };

export type Side = {
  name: string;
  settings: string;
  /** The process that sends. */
  worker: Pick<Child<Record<string, never>>, 'cpuMs' | 'vitals'>;
  publisher: Costs | undefined;
  /** Where what is accepted is kept. */
  store: Costs | undefined;
  /** Answers the milliseconds from the first publish until everything is delivered and written down. */
  run: (load: RivalLoad) => Promise<number>;
};

const LEFT_MS = 120_000;

/** Halcyon in two processes; `onRun` receives the details of each run. */
export function ourSide(
  scene: Scene,
  engines: { publisher: Child<EngineProcess>; worker: Child<EngineProcess>; settings: string },
  onRun: (run: Recorded) => void,
): Side {
  return {
    name: 'halcyon',
    settings: engines.settings,
    worker: engines.worker,
    publisher: engines.publisher,
    store: scene.database,
    run: async (load) => {
      const run = await publishAndRecord(scene, engines.publisher, { ...load, storeIds: scene.storeIds });
      onRun(run);
      return run.ms;
    },
  };
}

export async function bareSide(defer: Defer, { urls }: Scene, execArgv: readonly string[] = []) {
  const worker = await startChild<BareProcess>(defer, import.meta.resolve('./bare-process.ts'), execArgv);
  await worker.ask('start', urls);
  const side: Side = {
    name: 'bare undici loop',
    settings: `one pool an origin, ${AT_ONCE} at once; the same guard, headers and signatures, no database`,
    worker,
    publisher: undefined,
    store: undefined,
    run: async ({ requests, arrayOf }) => {
      const startedAt = performance.now();
      await worker.ask('send', requests * arrayOf);
      return performance.now() - startedAt;
    },
  };
  return { side, worker };
}

type Queue = Pick<Child<Pick<RivalProcess<unknown>, 'publish' | 'left'>>, 'ask'>;

/** They have packages of their own: `npm ci --prefix bench/rivals`. */
const rival = (file: string): string => import.meta.resolve(`../rivals/${file}`);

/** Puts in and works off; the end is when all was received and nothing is left in the queue. */
async function runQueue({ receiver }: Scene, publisher: Queue, load: RivalLoad): Promise<number> {
  const startedAt = performance.now();
  await Promise.all([receiver.ask('until', load.requests * load.arrayOf), publisher.ask('publish', load)]);
  await until(
    () => publisher.ask('left', null),
    (left) => left === 0,
    LEFT_MS,
  );
  return performance.now() - startedAt;
}

/** Undefined where the machine has no Redis. */
export async function bullmqSide(defer: Defer, scene: Scene): Promise<Side | undefined> {
  const redis = await startRedis(defer);
  if (redis === undefined) return undefined;
  const start = () => startChild<RivalProcess<{ socket: string }>>(defer, rival('bullmq-process.ts'));
  const [publisher, worker] = [await start(), await start()];
  const given = { socket: redis.socket, urls: scene.urls };
  const put = await publisher.ask('start', { ...given, works: false });
  const settings = `${put}; ${await worker.ask('start', { ...given, works: true })}; ${redis.settings}`;
  const run = (load: RivalLoad) => runQueue(scene, publisher, load);
  return { name: 'BullMQ', settings, worker, publisher, store: redis, run };
}

export async function graphileSide(defer: Defer, scene: Scene): Promise<Side> {
  const { address } = scene.database;
  if (address.kind === 'url') throw new Error('The bench has a database of its own');
  const { directory, user, password, database } = address;
  const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
  const connectionString = `postgres://${login}@/${database}?host=${encodeURIComponent(directory)}`;
  const start = () => startChild<RivalProcess<{ connectionString: string }>>(defer, rival('graphile-process.ts'));
  const [publisher, worker] = [await start(), await start()];
  const given = { connectionString, urls: scene.urls };
  const put = await publisher.ask('start', { ...given, works: false });
  const settings = `${put}; ${await worker.ask('start', { ...given, works: true })}; the same PostgreSQL`;
  const run = (load: RivalLoad) => runQueue(scene, publisher, load);
  return { name: 'graphile-worker', settings, worker, publisher, store: scene.database, run };
}
