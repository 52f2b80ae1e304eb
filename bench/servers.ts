/**
 * What more PostgreSQL servers cost: publish and deliver over 1, 2 and 3 servers on this machine, as processor time, statements and
 * connections. The stores are divided evenly among the servers. Each load is published as fast as the machine allows (`burst`), and at
 * a rate that leaves processor time (`paced`), because both change how many events share a statement.
 */
import { createClient } from '#identity/oauth/clients/clients.ts';
import { shardOf, SHARDS } from '#core/ids.ts';
import type { Sql } from '#db/pool.ts';
import { createStore } from '#stores/store.ts';
import { until } from '../test/setup/until.ts';
import { startChild, type Child } from './setup/child.ts';
import type { HttpLoadProcess } from './setup/http-load-process.ts';
import { json, platformToken, publishBodies } from './setup/platform-requests.ts';
import type { ReceiverProcess } from './setup/receiver-process.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { addWebhook, eventMaker, REPRESENTATION_BYTES } from './setup/seed.ts';
import { startServer, type RunningServer } from './setup/server.ts';
import { ratios, spread, table } from './setup/table.ts';

const GOAL = 1.1;
const SERVERS = [1, 2, 3];
const WARM_UP = 1;

const numbers = {
  rounds: 5,
  count: 10_000,
  stores: 90,
  connections: 64,
  array: 100,
  connectionsForArrays: 8,
  perSecond: 300,
  perSecondInArrays: 1_000,
  seconds: 6,
};

type Round = { server: number; postgres: number; statements: number; perSecond: number; connections: number };

/** Creates stores with a webhook each, in the database that the map gives them. */
async function seed({ sql, databases, secretKey }: RunningServer, urls: readonly string[]): Promise<number[]> {
  // No store is made for another database while the map is new.
  await sql`update shard_map set date_created = '-infinity'`;
  const now = new Date();
  const storeIds: number[] = [];
  for (const [n, url] of urls.entries()) {
    const store = { name: `Store ${n}`, domain: `store${n}.example.com`, email: 'a@example.com', timeZone: 'UTC' };
    const { id: storeId } = await createStore(sql, { ...store, now });
    const database = databases[Math.floor((shardOf(storeId) * databases.length) / SHARDS)] ?? sql;
    // The outbox copies it.
    await until(
      () => database`select from store where id = ${storeId}`,
      ({ length }) => length === 1,
    );
    await addWebhook(database, secretKey, { storeId, name: 'bench', url, event: 'transaction_log/created', now });
    storeIds.push(storeId);
  }
  return storeIds;
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

/** Returns the sum of a number over the databases. */
async function inAll(databases: readonly Sql[], read: (sql: Sql) => Promise<readonly { n: number }[]>) {
  return sum((await Promise.all(databases.map(read))).map(([row]) => row?.n ?? 0));
}

const statementsOf = (databases: readonly Sql[]) =>
  inAll(
    databases,
    (sql) => sql<{ n: number }[]>`
      select sum(calls)::float8 as n from pg_stat_statements s join pg_roles r on r.oid = s.userid
      where query not like '%pg_stat_statements%'`,
  );

const connectionsOf = (databases: readonly Sql[]) =>
  inAll(
    databases,
    (sql) => sql<{ n: number }[]>`
      select count(*) as n from pg_stat_activity where application_name like 'halcyon%'`,
  );

/**
 * `isPerServer`: as many requests for each server, over as many connections; otherwise all servers share those of one. `perSecond`: the
 * events of one second; without it as many requests as connections at a time.
 */
type Load = { name: string; arrayOf: number; connections: number; isPerServer: boolean; perSecond?: number };
type Scene = { load: Child<HttpLoadProcess>; receiver: Child<ReceiverProcess>; urls: readonly string[] };

/** Starts Halcyon with this many servers. Returns a function that measures a load. */
async function prepare(
  servers: number,
  { load, receiver, urls }: Scene,
  { options, defer }: { options: typeof numbers; defer: Defer },
): Promise<(load: Load) => Promise<Round>> {
  const running = await startServer(defer, 'external', { observed: true, servers });
  const { origin, sql, databases } = running;
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
  const authorization = `Bearer ${await platformToken(origin, platform)}`;
  const storeIds = await seed(running, urls);
  const path = storeIds.map((id) => `/stores/${id}/events`);
  const makers = storeIds.map(eventMaker);
  return async ({ name, arrayOf, isPerServer, connections: ofOne, perSecond }) => {
    const factor = isPerServer ? servers : 1;
    const requestsPerSecond = perSecond === undefined ? undefined : (factor * perSecond) / arrayOf;
    const requests =
      requestsPerSecond === undefined
        ? Math.ceil((factor * options.count) / arrayOf)
        : requestsPerSecond * options.seconds;
    const events = requests * arrayOf;
    const bodies = publishBodies(arrayOf, makers)(requests);
    const before = { ...(await running.cpuMs()), statements: await statementsOf(databases) };
    const startedMs = performance.now();
    const arrived = receiver.ask('until', events);
    const given = { target: { origin, path, authorization, headers: json }, bodies, connections: factor * ofOne };
    const loaded = await (requestsPerSecond === undefined
      ? load.ask('burst', { ...given, keeps: false })
      : load.ask('stream', { ...given, perSecond: requestsPerSecond, seconds: options.seconds }));
    const [failure] = loaded.failures;
    if (failure !== undefined) throw new Error(`${name}: ${failure}`);
    await arrived;
    const ms = performance.now() - startedMs;
    await until(
      () => Promise.all(databases.map((database) => database`select from delivery limit 1`)),
      (rows) => rows.every(({ length }) => length === 0),
    );
    const after = { ...(await running.cpuMs()), statements: await statementsOf(databases) };
    const each = (key: keyof typeof after): number => (after[key] - before[key]) / events;
    return {
      server: each('server') * 1_000,
      postgres: each('postgres') * 1_000,
      statements: each('statements'),
      perSecond: (events / ms) * 1_000,
      connections: await connectionsOf(databases),
    };
  };
}

await bench({ numbers }, async (options, defer) => {
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./setup/receiver-process.ts'));
  const urls = await receiver.ask('listen', { ports: options.stores, pair: undefined });
  const single = { name: 'one event a request', arrayOf: 1, connections: options.connections };
  const array = {
    name: `arrays of ${options.array}`,
    arrayOf: options.array,
    connections: options.connectionsForArrays,
  };
  const paced = (one: typeof single, perSecond: number) => ({ ...one, name: `${one.name}, ${perSecond}/s`, perSecond });
  const loads = [single, array, paced(single, options.perSecond), paced(array, options.perSecondInArrays)].flatMap(
    (one): Load[] => [
      { ...one, isPerServer: true, name: `${one.name}, the same load for each server` },
      { ...one, isPerServer: false, name: `${one.name}, the same load in all` },
    ],
  );
  // All run at the same time and are measured in turn: the machine changes by a third from minute to minute.
  const scene = { load, receiver, urls };
  const installations: Awaited<ReturnType<typeof prepare>>[] = [];
  for (const servers of SERVERS) installations.push(await prepare(servers, scene, { options, defer }));
  const results = loads.map(() => installations.map((): Round[] => []));
  for (let round = -WARM_UP; round < options.rounds; round += 1)
    for (const [at, one] of loads.entries())
      for (const [index, measure] of installations.entries()) {
        const measured = await measure(one);
        if (round >= 0) results[at]?.[index]?.push(measured);
      }
  for (const [at, { name }] of loads.entries()) {
    const of = (servers: number): Round[] => results[at]?.[SERVERS.indexOf(servers)] ?? [];
    const sums = (servers: number): number[] => of(servers).map(({ server, postgres }) => server + postgres);
    heading(`publish → delivered, ${name}: ${options.rounds} rounds, median (lowest–highest)`);
    table(
      ['servers', 'server µs', 'PostgreSQL µs', '× one server', 'goal', 'statements', 'connections', 'a second'],
      SERVERS.map((servers) => [
        String(servers),
        spread(of(servers).map(({ server }) => server)),
        spread(of(servers).map(({ postgres }) => postgres)),
        spread(ratios(sums(servers), sums(1)), 2),
        servers === 1 ? '' : `≤ ${GOAL}`,
        spread(
          of(servers).map(({ statements }) => statements),
          3,
        ),
        String(Math.max(...of(servers).map(({ connections }) => connections))),
        spread(of(servers).map(({ perSecond }) => perSecond)),
      ]),
    );
  }
  print(
    `µs, statements: an event of ${REPRESENTATION_BYTES} bytes with one delivery; all PostgreSQL servers together.`,
  );
  print('× one server: the sum of both, compared in each round. connections: of the one process, to all servers.');
});
