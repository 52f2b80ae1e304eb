/**
 * P4: what the healthy endpoints notice when others hang or refuse. 1 % refuse connections and 1 %, then 20 %, hang for the
 * whole exchange; between, none does. From publish to arrival at 79 % of the endpoints that are well all the time.
 * `--endpoints 20000 --rounds 5 --seconds 40 --rate 500` is the whole run; a phase should last longer than 30 s, the time-out.
 */
import { randomBytes } from 'node:crypto';
import { until } from '../test/setup/until.ts';
import { startChild } from './setup/child.ts';
import { startDatabase } from './setup/database.ts';
import type { EngineProcess } from './setup/engine-process.ts';
import type { MoodyReceiverProcess } from './setup/moody-receiver-process.ts';
import { bench, heading, print } from './setup/run.ts';
import { seedStores } from './setup/seed.ts';
import { quantile, ratios, spread, table } from './setup/table.ts';

const numbers = { rounds: 5, endpoints: 20_000, rate: 500, seconds: 40 };
const PHASES = [
  { name: 'all well', hangingPercent: 0 },
  { name: '1 % hang', hangingPercent: 1 },
  { name: 'all well again', hangingPercent: 0 },
  { name: '20 % hang', hangingPercent: 20 },
] as const;
const REFUSING_PERCENT = 1;
const TROUBLED_PERCENT = 21;
const ARRIVAL_PATIENCE_MS = 60_000;

type Measured = { name: string; p50: number; p95: number; p99: number; held: number; rssMiB: number; loopMs: number };

await bench({ numbers }, async ({ rounds, endpoints, rate, seconds }, defer) => {
  const share = (percent: number) => Math.floor((endpoints * percent) / 100);
  const database = await startDatabase(defer);
  const receiver = await startChild<MoodyReceiverProcess>(
    defer,
    import.meta.resolve('./setup/moody-receiver-process.ts'),
  );
  const origins = await receiver.ask('listen', { endpoints, refusing: share(REFUSING_PERCENT) });
  const secretKey = randomBytes(32);
  const storeIds = await seedStores(database.sql, origins, secretKey);
  const start = async (delivers: boolean) => {
    const engine = await startChild<EngineProcess>(defer, import.meta.resolve('./setup/engine-process.ts'));
    const settings = await engine.ask('start', { address: database.address, secretKey, delivers, counts: false });
    return { engine, settings };
  };
  const [publisher, worker] = [await start(false), await start(true)];
  // One after the other they would be neighbours in the table, and in trouble together.
  const inAnyOrder = storeIds.toSorted((a, b) => (a % 9_973) - (b % 9_973));

  heading(`P4: ${endpoints} endpoints on loopback, ${rate} events a second, open loop, phases of ${seconds} s`);
  print(`publisher: ${publisher.settings}; worker: ${worker.settings}; PostgreSQL: ${database.settings}`);

  let from = 0;
  const healthy = { from: share(TROUBLED_PERCENT), to: endpoints };
  const healthyStores = new Set(storeIds.slice(healthy.from));
  const run = async (name: string, hangingPercent: number): Promise<Measured> => {
    const first = share(REFUSING_PERCENT);
    const hanging = { from: first, to: first + share(hangingPercent) };
    await receiver.ask('mood', { hanging, refuses: hangingPercent > 0 });
    await receiver.ask('measure', healthy);
    await worker.engine.vitals();
    const count = rate * seconds;
    // It goes on with the stores where the phase before ended.
    const next = from % endpoints;
    const turn = [...inAnyOrder.slice(next), ...inAnyOrder.slice(0, next)];
    await publisher.engine.ask('publishAtPace', { storeIds: turn, perSecond: rate, seconds, from });
    const [held, { rssMiB, loopP99Ms }] = await Promise.all([receiver.ask('held', null), worker.engine.vitals()]);
    let expected = 0;
    for (let n = 0; n < count; n += 1) if (healthyStores.has(turn[n % endpoints] ?? 0)) expected += 1;
    from += count;
    const latencies = await until(
      () => receiver.ask('latencies', null),
      ({ length }) => length >= expected,
      ARRIVAL_PATIENCE_MS,
    );
    const [p50, p95, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.95), quantile(latencies, 0.99)];
    const measured = { name, p50, p95, p99, held, rssMiB, loopMs: loopP99Ms };
    print(
      `${name.padEnd(15)} p50 ${p50.toFixed(1)}  p95 ${p95.toFixed(1)}  p99 ${p99.toFixed(1)} ms  ` +
        `${latencies.length} arrived, ${held} hang, RSS ${rssMiB.toFixed(0)} MiB, loop p99 ${loopP99Ms.toFixed(1)} ms`,
    );
    return measured;
  };

  await run('warming up', 0);
  const results: Measured[] = [];
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, hangingPercent } of PHASES) results.push(await run(name, hangingPercent));
  }

  heading(`${rounds} rounds: median (lowest–highest), ms from publish to arrival at the healthy`);
  const of = (name: string, key: Exclude<keyof Measured, 'name'>) =>
    results.filter((result) => result.name === name).map((result) => result[key]);
  table(
    ['', 'p50', 'p95', 'p99', 'p95 to before', 'hang at once', 'worker RSS MiB', 'loop p99'],
    PHASES.map(({ name }, at) => [
      name,
      spread(of(name, 'p50'), 1),
      spread(of(name, 'p95'), 1),
      spread(of(name, 'p99'), 1),
      at === 0 ? '' : spread(ratios(of(name, 'p95'), of(PHASES[at - 1]?.name ?? name, 'p95')), 2),
      spread(of(name, 'held')),
      spread(of(name, 'rssMiB')),
      spread(of(name, 'loopMs'), 1),
    ]),
  );
  print('Goal of P4: p95 of the healthy moves by less than 10 %, or 2 ms where that is more.');
});
