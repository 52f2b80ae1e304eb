/**
 * P2: how long it takes from the moment an event is due to be published until its receiver has it, at loads that do not wait
 * for answers; where one process publishes and delivers, and where they are two and speak by NOTIFY. `--rounds 5 --seconds 20`
 * is the whole run.
 */
import { until } from '../test/setup/until.ts';
import type { Child } from './setup/child.ts';
import type { EngineProcess } from './setup/engine-process.ts';
import type { Latency } from './setup/receiver-process.ts';
import { bench, heading, print } from './setup/run.ts';
import { startScene, untilRecorded } from './setup/scene.ts';
import { REPRESENTATION_BYTES } from './setup/seed.ts';
import { spread, table } from './setup/table.ts';

const RATES = [50, 200, 1_000, 5_000];
const GOAL_MS = 20;
const GOAL_UP_TO = 1_000;
const WARM_UP_PER_SECOND = 1_000;
const WARM_UP_SECONDS = 3;
/** What is behind when the load ends is still waited for. */
const PATIENCE_MS = 120_000;

const numbers = { rounds: 3, seconds: 10, endpoints: 500 };

/** `behind`: published and not yet received in the moment in which the last event was due. */
type Round = Latency & { behind: number; rssMiB: number; loopP99Ms: number };

await bench({ numbers }, async ({ rounds, seconds, endpoints }, defer) => {
  const scene = await startScene(defer, { endpoints });
  const { receiver, storeIds } = scene;
  heading(`P2: ${endpoints} stores, one webhook each, ${REPRESENTATION_BYTES} bytes, one event a request, open loop`);
  print('rival  127 ms p95 at 200/s, saturated at 1,000/s: the best that is published, not run here');
  print(`Halcyon: PostgreSQL: ${scene.database.settings}`);
  let from = 0;
  const measure = async (
    { publisher, worker }: Record<'publisher' | 'worker', Child<EngineProcess>>,
    perSecond: number,
    lasting = seconds,
  ): Promise<Round> => {
    await receiver.ask('startTiming', null);
    await worker.vitals();
    const { published } = await publisher.ask('publishAtPace', { storeIds, perSecond, seconds: lasting, from });
    from += published;
    const behind = published - (await receiver.ask('timed', null));
    await until(
      () => receiver.ask('timed', null),
      (timed) => timed >= published,
      PATIENCE_MS,
    );
    const { rssMiB, loopP99Ms } = await worker.vitals();
    const latency = await receiver.ask('stopTiming', null);
    await untilRecorded(scene);
    return { ...latency, behind, rssMiB, loopP99Ms };
  };

  const run = async (layout: string, engines: Record<'publisher' | 'worker', Child<EngineProcess>>): Promise<void> => {
    await measure(engines, WARM_UP_PER_SECOND, WARM_UP_SECONDS);
    const results = RATES.map((): Round[] => []);
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, perSecond] of RATES.entries()) results[index]?.push(await measure(engines, perSecond));
    }
    heading(`${layout}: ${rounds} rounds of ${seconds} s each, median (lowest–highest) in ms`);
    const rows = RATES.map((perSecond, index) => {
      const of = (key: keyof Round, digits = 0): string => spread(results[index]?.map((one) => one[key]) ?? [], digits);
      const late = [of('earlierP95', 1), of('laterP95', 1), of('behind')];
      return [`${perSecond}/s`, of('p50', 1), of('p95', 1), of('p99', 1)].concat(
        late,
        of('rssMiB'),
        of('loopP99Ms', 1),
      );
    });
    table(['', 'p50', 'p95', 'p99', 'p95 1st half', 'p95 2nd half', 'behind', 'RSS MiB', 'loop p99 ms'], rows);
    for (const engine of new Set(Object.values(engines))) await engine.stop();
  };

  const { engine: whole } = await scene.startEngine({ delivers: true });
  await run('One process publishes and delivers', { publisher: whole, worker: whole });
  const { engine: publisher } = await scene.startEngine({ delivers: false });
  const { engine: worker } = await scene.startEngine({ delivers: true });
  await run('One process publishes, another delivers', { publisher, worker });
  print();
  print(
    `behind: events published and not received in the moment in which the last was due. RSS, loop: of who delivers.`,
  );
  print(`goal: p95 under ${GOAL_MS} ms up to ${GOAL_UP_TO}/s; at 5,000/s the second half no later than the first.`);
});
