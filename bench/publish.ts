/**
 * Publishing with group commit, beside one statement a request: as many statements at once as the pool carries, and one
 * at a time for each committer, which is what the same publisher does when it may not group. At 1, 64 and 256 clients, and
 * by arrays; with the statements and the bytes of WAL that an event costs.
 */
import { Registry } from '@prometheus-io/client';
import { openPool } from '#db/pool.ts';
import { createIdAllocator } from '#db/partitions.ts';
import { createPublishMetrics, createPublisher, type Publisher } from '#events/publish/publish.ts';
import { readConfig } from '../src/config/config.ts';
import { BASE_URL } from '../test/setup/engine.ts';
import { startDatabase, type Database } from './setup/database.ts';
import { runLoad, type Load } from './setup/load.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { seedStores } from './setup/seed.ts';
import { quantile, ratios, spread, table } from './setup/table.ts';

const numbers = { rounds: 5, count: 10_000, array: 100 };
const CLIENTS = [1, 64, 256];
/** Clients that publish arrays. */
const ARRAY_CLIENTS = 64;

type Round = { perSecond: number; p50: number; p99: number; statements: number; walBytes: number };
type PublisherOf = (client: number) => Publisher;
type Way = { name: string; publisherFor: PublisherOf };

const { events: limits, database: pool } = readConfig({}, '/');

/** The three ways to publish, over one pool that counts what it is asked. */
function waysOver(database: Database, defer: Defer) {
  const counted = { statements: 0 };
  const sql = openPool(database.address, {
    connections: pool.connections,
    applicationName: 'bench-publisher',
    onQuery: () => (counted.statements += 1),
  });
  defer(() => sql.end({ timeout: 1 }));
  const publisherOf = (batchRows: number): Publisher =>
    createPublisher({
      sql,
      allocateIds: createIdAllocator(),
      baseUrl: BASE_URL,
      metrics: createPublishMetrics(new Registry()),
      batchRows,
      batchBytes: limits.batchBytes,
      batchesAtOnce: limits.batchesAtOnce,
      waitingBytes: limits.waitingBytes,
      onCommitted: () => {},
      onUnknown: () => {},
    });
  const grouped = publisherOf(limits.batchRows);
  const inTurn = publisherOf(1);
  // A publisher for each client: its committers have one request at most, so every request is a statement of its own.
  const alone = Array.from({ length: Math.max(...CLIENTS, ARRAY_CLIENTS) }, () => publisherOf(1));
  const ways: readonly Way[] = [
    { name: 'group commit', publisherFor: () => grouped },
    { name: 'rival 1: a statement a request', publisherFor: (client) => alone[client] ?? inTurn },
    { name: 'rival 2: one at a time', publisherFor: () => inTurn },
  ];
  return { ways, counted };
}

await bench({ numbers }, async ({ rounds, count, array }, defer) => {
  const database = await startDatabase(defer);
  const { ways, counted } = waysOver(database, defer);
  // Nothing is sent: no worker runs.
  const urls = Array.from({ length: Math.max(...CLIENTS) }, () => 'http://127.0.0.1:9');
  const storeIds = await seedStores(database.sql, urls, Buffer.alloc(32, 1));

  heading('Publishing: one webhook matches each event, durable, no worker');
  print(`Halcyon: group commit: ≤ ${limits.batchRows} rows a statement, two committers`);
  print(`rival 1  one statement a request, ${pool.connections} connections at once`);
  print('rival 2  one statement a request, two committers, one at a time each (batchRows 1)');
  print(`all      ${pool.connections} connections; PostgreSQL: ${database.settings}`);

  const walAt = async (): Promise<number> => {
    const [row] = await database.sql<
      { at: number }[]
    >`select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as at`;
    return row?.at ?? 0;
  };
  let from = 0;
  const measure = async ({ publisherFor }: Way, load: Omit<Load, 'from'>): Promise<Round> => {
    const before = { ...counted, wal: await walAt() };
    const startedAt = performance.now();
    const latencies = await runLoad(publisherFor, { ...load, from });
    const ms = performance.now() - startedAt;
    const published = load.requests * load.arrayOf;
    from += published;
    return {
      perSecond: (published / ms) * 1_000,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      statements: (counted.statements - before.statements) / published,
      walBytes: ((await walAt()) - before.wal) / published,
    };
  };

  const [first = 0] = storeIds;
  const single = { arrayOf: 1 };
  const loads: readonly { name: string; load: Omit<Load, 'from'> }[] = [
    ...CLIENTS.map((concurrent) => ({
      name: `one event a request, ${concurrent} at once, a store a client`,
      load: { ...single, concurrent, requests: concurrent === 1 ? count / 10 : count, storeIds },
    })),
    {
      name: `one event a request, ${ARRAY_CLIENTS} at once, one store for all`,
      load: { ...single, concurrent: ARRAY_CLIENTS, requests: count, storeIds: [first] },
    },
    {
      name: `arrays of ${array}, ${ARRAY_CLIENTS} at once, a store a client`,
      load: { arrayOf: array, concurrent: ARRAY_CLIENTS, requests: Math.ceil((4 * count) / array), storeIds },
    },
  ];

  for (const { name, load } of loads) {
    const results = ways.map((): Round[] => []);
    for (const way of ways) await measure(way, { ...load, requests: Math.ceil(load.requests / 5) });
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, way] of ways.entries()) results[index]?.push(await measure(way, load));
    }
    heading(`${name}: ${rounds} rounds, median (lowest–highest)`);
    const of = (index: number, key: keyof Round): number[] => results[index]?.map((one) => one[key]) ?? [];
    const rows = ways.map((way, index) => [
      way.name,
      spread(of(index, 'perSecond')),
      spread(of(index, 'p50'), 1),
      spread(of(index, 'p99'), 1),
      spread(of(index, 'statements'), 3),
      spread(of(index, 'walBytes')),
      spread(ratios(of(0, 'perSecond'), of(index, 'perSecond')), 2),
    ]);
    table(
      ['', 'events a second', 'p50 ms', 'p99 ms', 'statements an event', 'WAL bytes an event', 'Halcyon ÷ it'],
      rows,
    );
  }
});
