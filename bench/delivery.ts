/**
 * P1: deliveries a second with durable bookkeeping, beside the bare undici loop, BullMQ with Redis and graphile-worker with the
 * same PostgreSQL, each in processes of the same kind. `--rounds 5 --count 50000` is the whole run; `--few` leaves the two
 * queues out; `--profile` says also where our worker and the bare loop spend their time, and what PostgreSQL does.
 */
import { spawnSync } from 'node:child_process';
import { bareSide, bullmqSide, graphileSide, ourSide, type Side } from './setup/delivery-sides.ts';
import { forgetStatements, printProfile, printStatements, profiling } from './setup/profile.ts';
import { bench, heading, print } from './setup/run.ts';
import { startScene, type Recorded } from './setup/scene.ts';
import { REPRESENTATION_BYTES } from './setup/seed.ts';
import { ratios, spread, table } from './setup/table.ts';

/** How many times as fast as each of the others Halcyon has to be. */
const GOALS: Readonly<Record<string, number>> = { 'bare undici loop': 0.6, BullMQ: 2, 'graphile-worker': 4 };
const PROFILE_ROWS = 30;

const numbers = { rounds: 5, count: 50_000, endpoints: 500, array: 100, concurrent: 16 };

type Round = {
  perSecond: number;
  us: Record<'worker' | 'publisher' | 'store', number>;
  rssMiB: number;
  loopMs: number;
};

await bench({ numbers, flags: ['profile', 'few'] }, async (options, defer) => {
  const { rounds, endpoints, array, concurrent } = options;
  const requests = Math.ceil(options.count / array);
  const count = requests * array;
  const scene = await startScene(defer, { endpoints, observed: options.profile });
  const { database } = scene;
  const [workerProfile, bareProfile] = [await profiling(defer), await profiling(defer)];
  const publisher = await scene.startEngine({ delivers: false });
  const worker = await scene.startEngine({ delivers: true }, options.profile ? workerProfile.execArgv : []);
  const runs: Recorded[] = [];
  const engines = { publisher: publisher.engine, worker: worker.engine };
  const settings = `${publisher.settings}; ${worker.settings}`;
  const halcyon = ourSide(scene, { ...engines, settings }, (run) => runs.push(run));
  const bare = await bareSide(defer, scene, options.profile ? bareProfile.execArgv : []);
  const queues = options.few ? [] : [await bullmqSide(defer, scene), await graphileSide(defer, scene)];
  const sides = [halcyon, bare.side, ...queues].filter((side) => side !== undefined);

  heading(`P1: ${endpoints} endpoints on loopback, ${REPRESENTATION_BYTES} bytes, both signatures, guard on`);
  for (const side of sides) print(`${side.name}: ${side.settings}`);
  if (queues.includes(undefined)) print('BullMQ: left out, there is no redis-server');
  print(`PostgreSQL: ${database.settings}`);
  print(`each publishes arrays of ${array}, ${concurrent} at once, from a process of its own, while another delivers`);

  let from = 0;
  const usOf = async (side: Side): Promise<Round['us']> => {
    const msOf = async (one: Side['store']) => (one === undefined ? Number.NaN : one.cpuMs());
    const [own, put, store] = await Promise.all([msOf(side.worker), msOf(side.publisher), msOf(side.store)]);
    return { worker: own, publisher: put, store };
  };
  const measure = async (side: Side): Promise<Round> => {
    const before = await usOf(side);
    await side.worker.vitals();
    const ms = await side.run({ requests, arrayOf: array, concurrent, from });
    from += count;
    const after = await usOf(side);
    const { rssMiB, loopP99Ms } = await side.worker.vitals();
    const us = (name: keyof Round['us']) => ((after[name] - before[name]) / count) * 1_000;
    return {
      perSecond: (count / ms) * 1_000,
      us: { worker: us('worker'), publisher: us('publisher'), store: us('store') },
      rssMiB,
      loopMs: loopP99Ms,
    };
  };

  const results = new Map(sides.map((side) => [side, [] as Round[]]));
  for (const side of sides) await measure(side);
  if (options.profile) await forgetStatements(database.sql);
  for (let round = 0; round < rounds; round += 1) {
    for (const side of sides) results.get(side)?.push(await measure(side));
  }

  heading(`${rounds} rounds of ${count} deliveries: median (lowest–highest)`);
  const of = (side: Side, pick: (round: Round) => number): number[] => results.get(side)?.map(pick) ?? [];
  const rate = (side: Side): number[] => of(side, ({ perSecond }) => perSecond);
  const rows = sides.map((side) => [
    side.name,
    spread(rate(side)),
    side === halcyon ? '' : spread(ratios(rate(halcyon), rate(side)), 2),
    side === halcyon ? '' : String(GOALS[side.name]),
    spread(of(side, ({ us }) => us.worker)),
    side.store === undefined ? '' : spread(of(side, ({ us }) => us.store)),
    side.publisher === undefined ? '' : spread(of(side, ({ us }) => us.publisher)),
    spread(of(side, ({ rssMiB }) => rssMiB)),
    spread(
      of(side, ({ loopMs }) => loopMs),
      1,
    ),
  ]);
  const head = [
    '',
    'a second',
    'Halcyon ÷ it',
    'goal',
    'worker µs',
    'store µs',
    'publisher µs',
    'RSS MiB',
    'loop p99 ms',
  ];
  table(head, rows);
  print('µs: processor time a delivery. RSS and event loop are of the process that sends.');
  const [warmUp, ...later] = runs;
  print(
    `Halcyon: published ${spread(later.map((run) => (count / run.publishMs) * 1_000))} a second while it delivered`,
  );
  print(
    `its worker opened ${warmUp?.connections} connections to warm up, then ${spread(later.map((run) => run.connections))} a round`,
  );
  print(`attempts that failed and were made again after a minute: ${spread(later.map((run) => run.failed))} a round`);
  const limit = spawnSync('sh', ['-c', 'ulimit -n']).stdout.toString().trim();
  print(
    `it holds ${await engines.worker.ask('descriptors', null)} file descriptors at the end; a process may have ${limit} here`,
  );

  if (!options.profile) return;
  await printStatements(database.sql, rounds * count);
  for (const child of [engines.worker, bare.worker]) await child.stop();
  await printProfile('worker', workerProfile.folder, PROFILE_ROWS);
  await printProfile('bare undici loop', bareProfile.folder, PROFILE_ROWS);
});
