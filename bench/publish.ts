/**
 * Publishing with group commit, beside one statement a request: as many statements at once as the pool carries, and one
 * at a time for each committer, which is what the same publisher does when it may not group.
 */
import { createMint } from '#events/batch/mint.ts';
import { createPublisher, type Publisher } from '#events/publish.ts';
import { openPool } from '#database/pool.ts';
import { readConfig } from '../src/config.ts';
import { BASE_URL } from '../test/setup/engine.ts';
import { startDatabase } from './setup/database.ts';
import { runLoad, type Load } from './setup/load.ts';
import { bench, heading, print } from './setup/run.ts';
import { seedStores } from './setup/seed.ts';
import { quantile, ratios, spread, table } from './setup/table.ts';

const numbers = { rounds: 5, count: 10_000, clients: 64, array: 100 };

type Round = { perSecond: number; p50: number; p99: number };

await bench({ numbers }, async ({ rounds, count, clients, array }, defer) => {
  const database = await startDatabase(defer);
  const { events, database: limits } = readConfig({}, '/');
  const sql = openPool(database.address, { connections: limits.connections, applicationName: 'bench-publisher' });
  defer(() => sql.end({ timeout: 1 }));
  // Nothing is sent: no worker runs.
  const urls = Array.from({ length: clients }, () => 'http://127.0.0.1:9');
  const storeIds = await seedStores(database.sql, urls, Buffer.alloc(32, 1));

  const publisherOf = (batchRows: number): Publisher =>
    createPublisher({
      sql,
      mint: createMint(),
      baseUrl: BASE_URL,
      batchRows,
      batchBytes: events.batchBytes,
      onCommitted: () => {},
      onUnknown: () => {},
    });
  const grouped = publisherOf(events.batchRows);
  const inTurn = publisherOf(1);
  // A publisher for each client: its committers have one request at most, so every request is a statement of its own.
  const alone = Array.from({ length: clients }, () => publisherOf(1));

  heading(`Publishing: ${clients} clients at once, one webhook matches, durable, no worker`);
  print(`ours     group commit: ≤ ${events.batchRows} rows a statement, two committers`);
  print(`rival 1  one statement a request, ${limits.connections} connections at once`);
  print('rival 2  one statement a request, two committers, one at a time each (batchRows 1)');
  print(`all      ${limits.connections} connections; PostgreSQL: ${database.settings}`);

  let from = 0;
  const measure = async (publisherFor: (client: number) => Publisher, load: Omit<Load, 'from'>): Promise<Round> => {
    const startedAt = performance.now();
    const latencies = await runLoad(publisherFor, { ...load, from });
    const ms = performance.now() - startedAt;
    const published = load.requests * load.arrayOf;
    from += published;
    return {
      perSecond: (published / ms) * 1_000,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
    };
  };
  const ways: readonly (readonly [name: string, publisherFor: (client: number) => Publisher])[] = [
    ['group commit', () => grouped],
    ['rival 1: a statement a request', (client) => alone[client] ?? inTurn],
    ['rival 2: one at a time', () => inTurn],
  ];
  const [first = 0] = storeIds;
  const single = { requests: count, arrayOf: 1, concurrent: clients };
  const arrays = { requests: Math.ceil((4 * count) / array), arrayOf: array, concurrent: clients };
  const loads: readonly (readonly [name: string, load: Omit<Load, 'from'>])[] = [
    ['one event a request, a store a client', { ...single, storeIds }],
    ['one event a request, one store for all', { ...single, storeIds: [first] }],
    [`arrays of ${array}, a store a client`, { ...arrays, storeIds }],
  ];

  for (const [name, load] of loads) {
    const results = ways.map((): Round[] => []);
    for (const [, publisherFor] of ways)
      await measure(publisherFor, { ...load, requests: Math.ceil(load.requests / 5) });
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, [, publisherFor]] of ways.entries()) results[index]?.push(await measure(publisherFor, load));
    }
    heading(`${name}: ${rounds} rounds, median (lowest–highest)`);
    const ours = results[0]?.map(({ perSecond }) => perSecond) ?? [];
    const rows = ways.map(([way], index) => {
      const all = results[index] ?? [];
      const perSecond = all.map((result) => result.perSecond);
      const p50 = all.map((result) => result.p50);
      const p99 = all.map((result) => result.p99);
      return [way, spread(perSecond), spread(p50, 1), spread(p99, 1), spread(ratios(ours, perSecond), 2)];
    });
    table(['', 'events a second', 'p50 ms', 'p99 ms', 'ours ÷ it'], rows);
  }
});
