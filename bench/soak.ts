/**
 * P12: full load for a long time, and for half of it a transaction is held open, so that nothing that died can be cleared away.
 * `--minutes 60` is the whole run.
 */
import { bench, heading, print } from './setup/run.ts';
import { publishAll, startScene } from './setup/scene.ts';
import { quantile, table } from './setup/table.ts';

const GOAL = 0.2;
const MINUTE_MS = 60_000;
const LINES = 20;

const numbers = { minutes: 10, count: 20_000, endpoints: 500, array: 100, concurrent: 16 };

type Sample = {
  atMs: number;
  perSecond: number;
  isHeld: boolean;
  deliveryMiB: number;
  dead: number;
  historyBytes: number;
  rssMiB: number;
  publisherMiB: number;
  loopP99Ms: number;
};

await bench({ numbers }, async ({ minutes, count, endpoints, array, concurrent }, defer) => {
  const scene = await startScene(defer, { endpoints });
  const { storeIds } = scene;
  const { sql, settings } = scene.database;
  const { engine: publisher } = await scene.startEngine({ delivers: false });
  const { engine: worker } = await scene.startEngine({ delivers: true });
  heading(`P12: ${minutes} minutes of full load over ${endpoints} endpoints, a transaction open for the middle half`);
  print(`PostgreSQL: ${settings}`);

  const lastsMs = minutes * MINUTE_MS;
  const requests = Math.ceil(count / array);
  const delivered = requests * array;
  let from = 0;
  const samples: Sample[] = [];

  const sizes = async () => {
    const [row] = await sql<{ deliveryMiB: number; dead: number; historyBytes: number }[]>`
      select pg_total_relation_size('delivery') / 1048576.0::float8 as "deliveryMiB",
        pg_stat_get_dead_tuples('delivery'::regclass)::float8 as dead,
        (select sum(pg_total_relation_size(relid))::float8 from pg_partition_tree('attempt')) +
        (select sum(pg_total_relation_size(relid))::float8 from pg_partition_tree('delivery_done')) as "historyBytes"`;
    if (row === undefined) throw new Error('No sizes');
    return row;
  };

  const startedAt = performance.now();
  const load = () => ({ storeIds, requests, arrayOf: array, concurrent, from });
  await publishAll(scene, publisher, load());
  from += delivered;
  let holder: Awaited<ReturnType<typeof sql.reserve>> | undefined;
  const release = async () => {
    if (holder === undefined) return;
    await holder`rollback`;
    holder.release();
    holder = undefined;
  };
  for (let atMs = 0; atMs < lastsMs; atMs = performance.now() - startedAt) {
    const shouldHold = atMs > lastsMs / 4 && atMs < (lastsMs * 3) / 4;
    if (shouldHold && holder === undefined) {
      holder = await sql.reserve();
      // It has a snapshot from here on, and everything that dies after it stays.
      await holder`begin isolation level repeatable read`;
      await holder`select from delivery limit 1`;
    } else if (!shouldHold) await release();
    await worker.vitals();
    const { ms } = await publishAll(scene, publisher, load());
    from += delivered;
    const [{ rssMiB, loopP99Ms }, { rssMiB: publisherMiB }, sized] = await Promise.all([
      worker.vitals(),
      publisher.vitals(),
      sizes(),
    ]);
    const perSecond = (delivered / ms) * 1_000;
    samples.push({ atMs, perSecond, isHeld: holder !== undefined, ...sized, rssMiB, publisherMiB, loopP99Ms });
  }
  await release();

  const groups = Array.from({ length: LINES }, (_, line) =>
    samples.filter(({ atMs }) => Math.floor((atMs / lastsMs) * LINES) === line),
  ).filter((group) => group.length > 0);
  const median = (group: readonly Sample[], pick: (sample: Sample) => number) => quantile(group.map(pick), 0.5);
  heading(`${samples.length} rounds of ${delivered} deliveries: medians`);
  table(
    ['minute', 'a second', 'open', 'delivery MiB', 'dead rows', 'worker MiB', 'publisher MiB', 'loop p99 ms'],
    groups.map((group) => [
      ((group[0]?.atMs ?? 0) / MINUTE_MS).toFixed(1),
      median(group, ({ perSecond }) => perSecond).toFixed(0),
      group.some(({ isHeld }) => isHeld) ? 'yes' : '',
      median(group, ({ deliveryMiB }) => deliveryMiB).toFixed(1),
      median(group, ({ dead }) => dead).toFixed(0),
      median(group, ({ rssMiB }) => rssMiB).toFixed(0),
      median(group, ({ publisherMiB }) => publisherMiB).toFixed(0),
      median(group, ({ loopP99Ms }) => loopP99Ms).toFixed(1),
    ]),
  );
  const rate = (within: (sample: Sample) => boolean) => median(samples.filter(within), ({ perSecond }) => perSecond);
  const first = rate(({ atMs }) => atMs < lastsMs / 4);
  const held = rate(({ atMs, isHeld }) => isHeld && atMs >= lastsMs / 2);
  const last = rate(({ atMs }) => atMs >= (lastsMs * 3) / 4);
  print(
    `of the first quarter's rate: ${(held / first).toFixed(2)} late in the open transaction, ${(last / first).toFixed(2)} in the last quarter`,
  );
  const [begun, ended] = [samples[0], samples.at(-1)];
  const grown = (ended?.historyBytes ?? 0) - (begun?.historyBytes ?? 0);
  print(
    `history: ${(grown / (delivered * (samples.length - 1))).toFixed(0)} bytes a delivery with its indexes, dropped by the day`,
  );
  print(`goal: a loss under ${GOAL * 100} %, and what is not history flat`);
});
