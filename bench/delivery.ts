/**
 * P1: deliveries a second with durable bookkeeping, beside the bare undici loop in a process of the same kind. With
 * `--profile` also where the two processes spend their time.
 */
import { spawnSync } from 'node:child_process';
import type { BareProcess } from './setup/bare-process.ts';
import { startChild } from './setup/child.ts';
import { forgetStatements, printProfile, printStatements, profiling } from './setup/profile.ts';
import { bench, heading, print } from './setup/run.ts';
import { publishAndRecord, startScene } from './setup/scene.ts';
import { REPRESENTATION_BYTES } from './setup/seed.ts';
import { ratios, spread, table } from './setup/table.ts';

const GOAL = 0.6;
const PROFILE_ROWS = 30;

const numbers = { rounds: 5, count: 50_000, endpoints: 500, array: 100, concurrent: 16 };

await bench({ numbers, flags: ['profile'] }, async (options, defer) => {
  const { rounds, endpoints, array, concurrent } = options;
  const requests = Math.ceil(options.count / array);
  const count = requests * array;
  const scene = await startScene(defer, { endpoints, observed: options.profile });
  const { database, receiver, urls, storeIds } = scene;
  const [workerProfile, bareProfile] = [await profiling(defer), await profiling(defer)];
  const publisher = await scene.startEngine({ delivers: false });
  const worker = await scene.startEngine({ delivers: true }, options.profile ? workerProfile.execArgv : []);
  const bareFile = import.meta.resolve('./setup/bare-process.ts');
  const bare = await startChild<BareProcess>(defer, bareFile, options.profile ? bareProfile.execArgv : []);
  await bare.ask('start', urls);

  heading(`P1: ${endpoints} endpoints on loopback, ${REPRESENTATION_BYTES} bytes, both signatures, guard on`);
  print(
    `ours   publisher: arrays of ${array}, ${concurrent} requests at once, ${publisher.settings}; a process of its own`,
  );
  print(`       worker: ${worker.settings}; a process of its own`);
  print(`       PostgreSQL: ${database.settings}`);
  print('rival  the same pools, connector, guard, headers and signatures, as many slots, no database');

  const processes = { publisher: publisher.engine, worker: worker.engine, bare, receiver, PostgreSQL: database };
  const cpu = async () =>
    new Map(
      await Promise.all(Object.entries(processes).map(async ([name, one]) => [name, await one.cpuMs()] as const)),
    );
  /** Runs one side; answers events a second and the processor microseconds an event of each process. */
  const measure = async (run: () => Promise<number>) => {
    const before = await cpu();
    const ms = await run();
    const used = [...(await cpu())].map(([name, after]) => [name, after - (before.get(name) ?? 0)] as const);
    return {
      perSecond: (count / ms) * 1_000,
      us: new Map(used.map(([name, usedMs]) => [name, (usedMs / count) * 1_000])),
    };
  };
  let from = 0;
  const published: number[] = [];
  const connections: number[] = [];
  const descriptors: number[] = [];
  const failed: number[] = [];
  const ours = () =>
    measure(async () => {
      const load = { storeIds, requests, arrayOf: array, concurrent, from };
      from += count;
      const done = await publishAndRecord(scene, publisher.engine, load);
      published.push((count / done.publishMs) * 1_000);
      connections.push(done.connections);
      failed.push(done.failed);
      descriptors.push(await worker.engine.ask('descriptors', null));
      return done.ms;
    });
  const rival = () =>
    measure(async () => {
      const startedAt = performance.now();
      await bare.ask('send', count);
      return performance.now() - startedAt;
    });

  await ours();
  await rival();
  if (options.profile) await forgetStatements(database.sql);
  const results: { ours: Awaited<ReturnType<typeof ours>>; rival: Awaited<ReturnType<typeof rival>> }[] = [];
  for (let round = 0; round < rounds; round += 1) results.push({ ours: await ours(), rival: await rival() });

  const us = (side: 'ours' | 'rival', name: string) => results.map((result) => result[side].us.get(name) ?? Number.NaN);
  const [oursPerSecond, rivalPerSecond] = [results.map((r) => r.ours.perSecond), results.map((r) => r.rival.perSecond)];
  heading(`${rounds} rounds of ${count} deliveries: median (lowest–highest)`);
  const head = ['', 'a second', 'worker µs', 'receiver µs', 'publisher µs', 'PostgreSQL µs'];
  const oursUs = ['worker', 'receiver', 'publisher', 'PostgreSQL'].map((name) => spread(us('ours', name), 1));
  const rivalUs = ['bare', 'receiver'].map((name) => spread(us('rival', name), 1));
  table(head, [
    ['published, sent and recorded', spread(oursPerSecond), ...oursUs],
    ['bare undici loop', spread(rivalPerSecond), ...rivalUs],
    [
      'ratio',
      spread(ratios(oursPerSecond, rivalPerSecond), 2),
      spread(ratios(us('rival', 'bare'), us('ours', 'worker')), 2),
    ],
  ]);
  print(`µs: processor time a delivery. Goal of P1: ${GOAL} of the bare loop a second.`);
  print(`meanwhile published ${spread(published.slice(1))} a second, while the worker delivered`);
  const [warmUp = 0, ...later] = connections;
  print(`the worker opened ${warmUp} connections to warm up, then ${spread(later)} a round`);
  print(`attempts that failed and were made again after a minute: ${spread(failed)} a round`);
  const limit = spawnSync('sh', ['-c', 'ulimit -n']).stdout.toString().trim();
  print(`it holds ${spread(descriptors)} file descriptors after a round; a process may have ${limit} here`);

  if (!options.profile) return;
  await printStatements(database.sql, rounds * count);
  for (const child of [worker.engine, bare]) await child.stop();
  await printProfile('worker', workerProfile.folder, PROFILE_ROWS);
  await printProfile('bare undici loop', bareProfile.folder, PROFILE_ROWS);
});
