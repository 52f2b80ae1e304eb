/**
 * P5: what a backlog costs those who have none. A million deliveries are due to 100,000 webhooks whose endpoint takes requests
 * and never answers, so that they are worked off as far as the slow may have slots, and a million more are put off until later;
 * beside them the traffic of P1 and P2 to others. The empty table first, then the full one, then the empty one again.
 * The defaults are the whole run; `--webhooks 1000 --pending 10000 --deferred 10000` is a short one.
 *
 * `--arrears` measures only the take-over of webhooks with one due delivery each, whose endpoints respond: from the start of the
 * worker's process to the first request and to the next ten thousand. `--profile` prints a CPU profile of the last worker, without
 * `--arrears` of the worker beside the full table, and what its statements cost PostgreSQL.
 */
import { until } from '../test/setup/until.ts';
import { seedBacklog } from './setup/backlog-seed.ts';
import type { Child } from './setup/child.ts';
import type { EngineProcess } from './setup/engine-process.ts';
import { forgetStatements, printProfile, printStatements, profiling } from './setup/profile.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { publishAll, startScene, untilRecorded } from './setup/scene.ts';
import { quantile, spread, table } from './setup/table.ts';

const GOALS = { change: 0.1, p95Ms: 2, rssMiB: 250 } as const;
const SHARDS = 256;
const PATIENCE_MS = 300_000;

const numbers = {
  rounds: 5,
  count: 30_000,
  seconds: 10,
  paced: 500,
  endpoints: 500,
  webhooks: 100_000,
  pending: 1_000_000,
  deferred: 1_000_000,
};

type Options = typeof numbers & { arrears: boolean; profile: boolean };
type Round = { perSecond: number; p50: number; p95: number; p99: number; rssMiB: number; loopP99Ms: number };
type Phase = { name: string; rounds: Round[]; takeOver: string };

/** Requests until which the rate after a take-over is measured. */
const ARRIVED = 10_000;

/** Starts a worker beside webhooks with one due delivery each, again and again. */
async function arrears(options: Options, defer: Defer): Promise<void> {
  const { rounds, webhooks } = options;
  const scene = await startScene(defer, { endpoints: options.endpoints });
  const { receiver, database, urls } = scene;
  const { sql } = database;
  heading(`P5: take-over of ${webhooks} webhooks with one due delivery each, to ${urls.length} endpoints that respond`);
  print(`PostgreSQL: ${database.settings}`);
  const wanted = { webhooks, pending: webhooks, deferred: 0 };
  await seedBacklog(sql, urls, wanted, scene.secretKey);
  await sql`create table seeded as select * from delivery`;
  const { folder, execArgv } = await profiling(defer);
  const target = Math.min(ARRIVED, webhooks);
  const results: { firstMs: number; targetMs: number; rssMiB: number }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await sql`truncate delivery, webhook_state, delivery_done, attempt`;
    await sql`insert into delivery select * from seeded`;
    await sql`vacuum analyze delivery`;
    const startedAt = performance.now();
    const first = receiver.ask('until', 1).then(() => performance.now() - startedAt);
    const isProfiled = options.profile && round === rounds - 1;
    const { engine: worker } = await scene.startEngine({ delivers: true }, isProfiled ? execArgv : []);
    const firstMs = await first;
    await receiver.ask('untilTotal', target);
    const targetMs = performance.now() - startedAt;
    const { rssMiB } = await worker.vitals();
    results.push({ firstMs, targetMs, rssMiB });
    await worker.stop();
  }
  const of = (key: 'firstMs' | 'targetMs' | 'rssMiB') => spread(results.map((result) => result[key]));
  print(
    `after the start of the process: first request after ${of('firstMs')} ms, ${target} after ${of('targetMs')} ms`,
  );
  print(`RSS of the worker then: ${of('rssMiB')} MiB`);
  if (options.profile) await printProfile('take-over', folder, 30);
}

await bench({ numbers, flags: ['arrears', 'profile'] }, async (options, defer) => {
  if (options.arrears) return arrears(options, defer);
  const { rounds, count, seconds, paced, webhooks, pending, deferred } = options;
  const scene = await startScene(defer, { endpoints: options.endpoints, observed: options.profile });
  const { receiver, storeIds, database } = scene;
  const { engine: publisher } = await scene.startEngine({ delivers: false });
  heading(
    `P5: ${pending} deliveries due and ${deferred} put off, over ${webhooks} webhooks of one endpoint that hangs`,
  );
  print(`measured beside them: ${count} deliveries by arrays of 100, and ${paced} events a second for ${seconds} s`);
  print(`PostgreSQL: ${database.settings}`);
  let from = 0;

  const measure = async (worker: Child<EngineProcess>): Promise<Round> => {
    await worker.vitals();
    const load = { storeIds, requests: Math.ceil(count / 100), arrayOf: 100, concurrent: 16, from };
    from += load.requests * load.arrayOf;
    const { ms } = await publishAll(scene, publisher, load);
    await receiver.ask('startTiming', null);
    const { published } = await publisher.ask('publishAtPace', { storeIds, perSecond: paced, seconds, from });
    from += published;
    await untilRecorded(scene);
    const { p50, p95, p99 } = await receiver.ask('stopTiming', null);
    return { perSecond: ((load.requests * load.arrayOf) / ms) * 1_000, p50, p95, p99, ...(await worker.vitals()) };
  };

  /** A new worker: until one delivery went out, and until it has looked into every shard: each is reconciled after all were scanned. */
  const takeOver = async (execArgv: string[] = []): Promise<{ worker: Child<EngineProcess>; took: string }> => {
    const startedAt = performance.now();
    const { engine: worker } = await scene.startEngine({ delivers: true, counts: true }, execArgv);
    const first = receiver.ask('until', 1).then(() => performance.now() - startedAt);
    const load = { storeIds: storeIds.slice(0, 1), requests: 1, arrayOf: 1, concurrent: 1, from };
    from += 1;
    await publisher.ask('publish', load);
    const firstMs = await first;
    await until(
      () => worker.ask('counts', null),
      ({ reconcile = 0 }) => reconcile >= SHARDS,
      PATIENCE_MS,
    );
    const allMs = performance.now() - startedAt;
    return {
      worker,
      took: `first delivery after ${firstMs.toFixed(0)} ms, every shard looked into after ${allMs.toFixed(0)} ms`,
    };
  };

  const phase = async (name: string, execArgv?: string[]): Promise<Phase> => {
    const { worker, took } = await takeOver(execArgv);
    await measure(worker);
    const results: Round[] = [];
    for (let round = 0; round < rounds; round += 1) results.push(await measure(worker));
    await worker.stop();
    return { name, rounds: results, takeOver: took };
  };

  const before = await phase('empty');
  const seeded = await seedBacklog(database.sql, [await receiver.ask('hang', null)], options, scene.secretKey);
  print(`the backlog was made in ${seeded.toFixed(0)} s`);
  const { folder, execArgv } = await profiling(defer);
  if (options.profile) await forgetStatements(database.sql);
  const full = await phase('full', options.profile ? execArgv : []);
  if (options.profile) {
    await printProfile('beside the full table', folder, 30);
    await printStatements(database.sql, (rounds + 1) * (count + paced * seconds));
  }
  await database.sql`truncate delivery`;
  const after = await phase('empty again');

  const of = (all: readonly Round[], key: keyof Round): number[] => all.map((round) => round[key]);
  heading(`${rounds} rounds each: median (lowest–highest)`);
  table(
    ['table', 'a second', 'p50 ms', 'p95 ms', 'p99 ms', 'RSS MiB', 'loop p99 ms'],
    [before, full, after].map(({ name, rounds: all }) => {
      const cells = (['p50', 'p95', 'p99'] as const).map((key) => spread(of(all, key), 1));
      return [name, spread(of(all, 'perSecond'))].concat(
        cells,
        spread(of(all, 'rssMiB')),
        spread(of(all, 'loopP99Ms'), 1),
      );
    }),
  );
  const empty = [...before.rounds, ...after.rounds];
  const middle = (all: readonly Round[], key: keyof Round): number => quantile(of(all, key), 0.5);
  const rate = middle(full.rounds, 'perSecond') / middle(empty, 'perSecond');
  const p95 = middle(full.rounds, 'p95') - middle(empty, 'p95');
  print(`full ÷ empty: ${rate.toFixed(2)} deliveries a second; p95 ${p95.toFixed(1)} ms later`);
  print(
    `goal: at least ${1 - GOALS.change}, at most ${GOALS.p95Ms} ms or ${GOALS.change * 100} %, under ${GOALS.rssMiB} MiB`,
  );
  for (const { name, takeOver: took } of [before, full, after]) print(`take-over of the ${name} table: ${took}`);
});
