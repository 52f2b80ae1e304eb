/**
 * P10: what a recovery costs live traffic. A hundred thousand events that a webhook missed are recovered to a quick endpoint
 * while others publish at a steady pace; how long live events take before, meanwhile and after, round by round.
 * The defaults are the whole run; `--rounds 1 --events 2000 --seconds 3` is a short one.
 */
import { transaction } from '#db/pool.ts';
import { insertRecovery } from '#events/replay/recoveries-sql.ts';
import { dailyIdOf, dayOf, idOf, shardOf } from '#core/ids.ts';
import { nextNumber } from '#webhooks/webhook-sql.ts';
import { until } from '../test/setup/until.ts';
import type { Latency } from './setup/receiver-process.ts';
import { bench, heading, print } from './setup/run.ts';
import { startScene, untilRecorded } from './setup/scene.ts';
import { eventMaker, seedStores } from './setup/seed.ts';
import { quantile, ratios, spread, table } from './setup/table.ts';

const GOAL_CHANGE = 0.2;
const PATIENCE_MS = 600_000;
/** Larger than any number that a sequence has come to here. */
const FIRST_NUMBER = 100_000_000;
const PART = { until: null, event: null, onlyFailed: false, resourceId: null, responseCode: null, responseBody: null };

const numbers = { rounds: 5, events: 100_000, seconds: 10, paced: 500, endpoints: 500 };

type Phase = 'before' | 'during' | 'after';
type Round = Record<Phase, Latency> & { seconds: number };

await bench({ numbers }, async (options, defer) => {
  const { rounds, events, seconds, paced } = options;
  const scene = await startScene(defer, { endpoints: options.endpoints });
  const { receiver, storeIds, database } = scene;
  const { sql } = database;
  const [storeId = 0] = await seedStores(sql, scene.urls.slice(0, 1), scene.secretKey);
  const shard = shardOf(storeId);
  const [webhook] = await sql<
    { id: number; epoch: number }[]
  >`select id, epoch from webhook where store_id = ${storeId}`;
  if (webhook === undefined) throw new Error('The store has no webhook');
  const { engine: publisher } = await scene.startEngine({ delivers: false });
  const { engine: worker } = await scene.startEngine({ delivers: true });
  heading(`P10: ${events} missed events of one webhook are recovered beside ${paced} live events a second`);
  print(`PostgreSQL: ${database.settings}`);
  let from = 0;
  let missed = 0;

  /** Live events for some seconds; how long each took from when it was due. */
  const live = async (): Promise<Latency> => {
    await receiver.ask('startTiming', null);
    const { published } = await publisher.ask('publishAtPace', { storeIds, perSecond: paced, seconds, from });
    from += published;
    await until(
      () => receiver.ask('timed', null),
      (timed) => timed >= published,
      PATIENCE_MS,
    );
    return receiver.ask('stopTiming', null);
  };

  /** Events without deliveries, as if the webhook had been inactive; their bodies have no due time. */
  const miss = async (): Promise<void> => {
    const now = new Date();
    const body = eventMaker(storeId)(0).body;
    const first = dailyIdOf(dayOf(now), FIRST_NUMBER + missed, shard);
    missed += events;
    await sql`
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
        date_created, body)
      select ${shard}, ${first}::bigint + n * 256, ${storeId}, 'transaction_log', 'missed ' || n, 'created', 1, 1, 'UTC',
        'http://localhost:8080', ${now}, ${body}
      from generate_series(0, ${events}::int - 1) n`;
    await sql`analyze event`;
  };

  const recover = async (since: Date): Promise<number> => {
    const id = idOf(await nextNumber(sql), shard);
    const { id: webhookId, epoch } = webhook;
    await transaction(sql, (tx) =>
      insertRecovery(tx, { shard, id, storeId, webhookId, epoch, since, ...PART, loadedType: null, now: new Date() }),
    );
    return id;
  };
  const progressOf = async (id: number): Promise<{ isOver: boolean; recovered: number }> => {
    const [row] = await sql<{ isOver: boolean; recovered: number }[]>`
      select date_ended is not null as "isOver", events_recovered as recovered from recovery where id = ${id}`;
    return row ?? { isOver: true, recovered: 0 };
  };

  const round = async (): Promise<Round> => {
    const since = new Date();
    await miss();
    const before = await live();
    const startedAt = performance.now();
    const id = await recover(since);
    await until(
      () => progressOf(id),
      ({ recovered }) => recovered > 0,
      PATIENCE_MS,
    );
    const during = await live();
    const { isOver } = await progressOf(id);
    if (isOver) print('the recovery was over before the live events were: take more --events or fewer --seconds');
    const { recovered } = await until(
      () => progressOf(id),
      (now) => now.isOver,
      PATIENCE_MS,
    );
    await untilRecorded({ ...scene, storeIds: [storeId] });
    const tookSeconds = (performance.now() - startedAt) / 1_000;
    if (recovered !== events) throw new Error(`${recovered} of ${events} events were recovered`);
    return { before, during, after: await live(), seconds: tookSeconds };
  };

  await live();
  const results: Round[] = [];
  for (let n = 0; n < rounds; n += 1) results.push(await round());
  heading(`${rounds} rounds of ${seconds} s each: median (lowest–highest) in ms`);
  const of = (phase: Phase, key: keyof Latency): number[] => results.map((one) => one[phase][key]);
  table(
    ['live events', 'p50', 'p95', 'p99'],
    (['before', 'during', 'after'] as const).map((phase) => {
      const cells = (['p50', 'p95', 'p99'] as const).map((key) => spread(of(phase, key), 1));
      return Array.of<string>(phase).concat(cells);
    }),
  );
  const change = ratios(of('during', 'p95'), of('before', 'p95'));
  print(`p95 during ÷ before, round by round: ${spread(change, 2)}; goal: under ${1 + GOAL_CHANGE}`);
  const rate = quantile(
    results.map((one) => events / one.seconds),
    0.5,
  );
  print(`a recovery took ${spread(results.map((one) => one.seconds))} s: ${rate.toFixed(0)} events a second`);
  const { rssMiB, loopP99Ms } = await worker.vitals();
  print(`who delivers: ${rssMiB.toFixed(0)} MiB, loop p99 ${loopP99Ms.toFixed(1)} ms`);
});
