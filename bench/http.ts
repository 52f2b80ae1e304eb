/**
 * What a user of the HTTP interface feels: a load in a process of its own, against the program as the README starts it. First
 * the processor time of a request and of a delivered event, with 64 requests at once; then the time from the moment when a request
 * is due until its response, or until the receiver has the event. `--external`: `serve` with a PostgreSQL beside it; `--apart`:
 * with delivery in another process; `--processes 2`: with a supervisor; `--brief`: only the first part; `--profile`: where the server spends its time in the case
 * number `--case`.
 */
import { until } from '../test/setup/until.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { letAppIn } from '../test/setup/grant-access.ts';
import { startChild } from './setup/child.ts';
import type { HttpLoadProcess, Target } from './setup/http-load-process.ts';
import { json, platformToken, post, publishBodies } from './setup/platform-requests.ts';
import { printProfile, profiling } from './setup/profile.ts';
import type { ReceiverProcess } from './setup/receiver-process.ts';
import { bench, heading, print } from './setup/run.ts';
import { eventMaker, REPRESENTATION_BYTES, seedStores } from './setup/seed.ts';
import { startServer, type Layout, type RunningServer } from './setup/server.ts';
import { quantile, spread, table } from './setup/table.ts';
import { basic, redeemAll, refreshBody, seedClient, seedCodes } from './setup/token-seed.ts';

const numbers = {
  rounds: 3,
  count: 10_000,
  connections: 64,
  stores: 100,
  grants: 500,
  seconds: 5,
  case: 1,
  processes: 1,
};
const RATES = [50, 200, 1_000];
const ARRAY = 100;
const WARM_UP = 2;
const PROFILE_ROWS = 40;
const PATIENCE_MS = 120_000;
const WEBHOOK = {
  name: 'Orders',
  format: 'json',
  url: 'https://shop.example.com/hooks/orders',
  query: 'zoom=items,customer',
  encryption_key: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  event_resource: 'transaction',
};

type Case = {
  name: string;
  target: Omit<Target, 'origin'>;
  /** Bodies of that many requests. */
  bodies: (count: number) => string[];
  /** Events of one request that the receiver gets; 0: none is delivered. */
  deliveries: number;
  /** As a multiple of /health/live. */
  goal: number | undefined;
};

await bench({ numbers, flags: ['external', 'apart', 'brief', 'profile'] }, async (options, defer) => {
  const { rounds, connections } = options;
  const external: Layout = options.apart ? 'apart' : 'external';
  const layout: Layout = options.external || options.apart ? external : 'embedded';
  const { folder, execArgv } = await profiling(defer);
  const env = { PROCESSES: String(options.processes) };
  const server: RunningServer = await startServer(defer, layout, options.profile ? { env, execArgv } : { env });
  const { origin, sql, secretKey } = server;
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./setup/receiver-process.ts'));
  const urls = await receiver.ask('listen', { ports: options.stores, pair: undefined });
  const storeIds = await seedStores(sql, urls, secretKey);
  const client = await seedClient(sql);
  const now = new Date();
  const app = await createClient(sql, { name: 'App', redirectUris: ['https://app.example.com/'], trusted: false, now });
  const grant = { clientId: app.client_id, userId: client.userId, storeId: client.storeId, now };
  const { access_token: appToken } = await letAppIn({ sql, baseUrl: origin }, grant);
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now });
  const token = await platformToken(origin, platform);
  const made = await post(
    origin,
    `/stores/${client.storeId}/webhooks`,
    `Bearer ${appToken}`,
    JSON.stringify(WEBHOOK),
    'application/json',
  );
  const webhookPath = new URL(made.headers.get('location') ?? '').pathname;
  const tokenTarget = { path: '/token', authorization: basic(client.credentials) };
  const refreshTokens = await redeemAll(load, { ...tokenTarget, origin }, await seedCodes(sql, client, options.grants));

  const authorization = `Bearer ${token}`;
  const eventsOf = (stores: readonly number[]) => stores.map((id) => `/stores/${id}/events`);
  const publishing = (name: string, stores: readonly number[], arrayOf: number, deliveries: number): Case => ({
    name,
    target: { path: eventsOf(stores), authorization, headers: json },
    bodies: publishBodies(arrayOf, stores.map(eventMaker)),
    deliveries,
    goal: deliveries === 1 ? 6 : undefined,
  });
  const empty = (count: number) => Array.from({ length: count }, () => '');
  const [first = 0] = storeIds;
  const cases: Case[] = [
    {
      name: 'GET /health/live',
      target: { path: '/health/live', authorization: '', method: 'GET' },
      bodies: empty,
      deliveries: 0,
      goal: 1,
    },
    {
      name: 'GET of a webhook',
      target: { path: webhookPath, authorization: `Bearer ${appToken}`, method: 'GET', headers: json },
      bodies: empty,
      deliveries: 0,
      goal: 2.5,
    },
    { ...publishing('publish, no match', [client.storeId], 1, 0), goal: 3 },
    {
      name: 'token, client credentials',
      target: { path: '/token', authorization: basic(platform) },
      bodies: (count) => Array.from({ length: count }, () => 'grant_type=client_credentials'),
      deliveries: 0,
      goal: 4,
    },
    {
      name: 'token, refresh',
      target: tokenTarget,
      bodies: (count) => Array.from({ length: count }, (_, n) => refreshBody(refreshTokens[n % options.grants] ?? '')),
      deliveries: 0,
      goal: 4,
    },
    publishing('publish → delivered, 1 store', [first], 1, 1),
    publishing(`publish → delivered, ${options.stores} stores`, storeIds, 1, 1),
    publishing(`arrays of ${ARRAY} → delivered, 1 store`, [first], ARRAY, ARRAY),
    publishing(`arrays of ${ARRAY} → delivered, ${options.stores} stores`, storeIds, ARRAY, ARRAY),
  ];

  /** Resolves when every delivery is recorded, so that its cost is counted and does not fall into the next case. The demo has one that waits for its retry. */
  const untilRecorded = () =>
    until(
      () => sql`select from delivery where store_id = any (${storeIds}::bigint[]) limit 1`,
      ({ length }) => length === 0,
      PATIENCE_MS,
    );
  const walBytes = async (): Promise<number> => {
    const [row] = await sql<{ bytes: number }[]>`
      select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as bytes`;
    return row?.bytes ?? Number.NaN;
  };
  const measure = async ({ name, target, bodies, deliveries }: Case, count: number) => {
    const requests = Math.max(1, Math.ceil(count / Math.max(1, deliveries)));
    const units = requests * Math.max(1, deliveries);
    const given = bodies(requests);
    const before = { cpu: await server.cpuMs(), wal: await walBytes() };
    const rowsBefore = await server.histogram('halcyon_publish_batch_events');
    const startedMs = performance.now();
    const arrived = deliveries > 0 ? receiver.ask('until', units) : undefined;
    const loaded = await load.ask('burst', { target: { ...target, origin }, bodies: given, connections, keeps: false });
    const [failure] = loaded.failures;
    if (failure !== undefined) throw new Error(`${name}: ${loaded.failures.length} failed, first ${failure}`);
    await arrived;
    const ms = performance.now() - startedMs;
    if (deliveries > 0) await untilRecorded();
    const after = { cpu: await server.cpuMs(), wal: await walBytes() };
    const rowsAfter = await server.histogram('halcyon_publish_batch_events');
    const each = (used: number): number => used / units;
    return {
      perSecond: (units / ms) * 1_000,
      server: each(after.cpu.server - before.cpu.server) * 1_000,
      postgres: each(after.cpu.postgres - before.cpu.postgres) * 1_000,
      wal: each(after.wal - before.wal),
      rows: (rowsAfter.sum - rowsBefore.sum) / Math.max(1, rowsAfter.count - rowsBefore.count),
      p50: quantile(loaded.latencies, 0.5),
      p95: quantile(loaded.latencies, 0.95),
      p99: quantile(loaded.latencies, 0.99),
    };
  };

  if (options.profile) {
    const chosen = cases[options.case - 1];
    if (chosen === undefined) throw new Error(`--case is a number from 1 to ${cases.length}`);
    for (let round = 0; round < rounds; round += 1) await measure(chosen, options.count);
    for (const program of server.programs) await program.end('SIGTERM');
    return printProfile(chosen.name, folder, PROFILE_ROWS);
  }

  type Round = Awaited<ReturnType<typeof measure>>;
  const results = cases.map((): Round[] => []);
  for (let round = 0; round < WARM_UP; round += 1) for (const one of cases) await measure(one, options.count);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, one] of cases.entries()) results[index]?.push(await measure(one, options.count));
  }
  heading(`${layout}: ${connections} requests at once, ${rounds} rounds of ${options.count}, median (lowest–highest)`);
  const pick = (index: number, key: keyof Round): number[] => results[index]?.map((round) => round[key]) ?? [];
  const base = Math.min(...pick(0, 'server'));
  table(
    [
      '',
      'a second',
      'server µs',
      '× live',
      'goal',
      'PostgreSQL µs',
      'WAL B',
      'events a batch',
      'p50 ms',
      'p95 ms',
      'p99 ms',
    ],
    cases.map(({ name, goal }, index) => [
      name,
      spread(pick(index, 'perSecond')),
      spread(pick(index, 'server')),
      (Math.min(...pick(index, 'server')) / base).toFixed(1),
      goal === undefined ? '' : String(goal),
      spread(pick(index, 'postgres')),
      spread(pick(index, 'wal')),
      quantile(pick(index, 'rows'), 0.5).toFixed(1),
      ...(['p50', 'p95', 'p99'] as const).map((key) => quantile(pick(index, key), 0.5).toFixed(1)),
    ]),
  );
  print('µs, WAL: a request, or a delivered event. × live: the least of the rounds as a multiple of GET /health/live.');
  print(
    `${REPRESENTATION_BYTES} bytes an event. No request failed, and every event was delivered once it was accepted.`,
  );

  if (options.brief) return;
  const timed = async ({ name, target, bodies, deliveries }: Case, perSecond: number): Promise<number[]> => {
    const given = { target: { ...target, origin }, bodies: bodies(perSecond * options.seconds), connections };
    await receiver.ask('startTiming', null);
    const loaded = await load.ask('stream', { ...given, perSecond, seconds: options.seconds });
    if (loaded.failures.length > 0) throw new Error(`${name}: ${loaded.failures[0]}`);
    const of = [0.5, 0.95, 0.99].map((share) => quantile(loaded.latencies, share));
    if (deliveries === 0) return of;
    await until(
      () => receiver.ask('timed', null),
      (count) => count >= given.bodies.length,
      PATIENCE_MS,
    );
    const { p50, p95, p99 } = await receiver.ask('stopTiming', null);
    await untilRecorded();
    return [...of, p50, p95, p99];
  };
  heading(`${layout}: open loop, ${rounds} rounds of ${options.seconds} s, median (lowest–highest), ms`);
  const rows: string[][] = [];
  for (const one of cases.slice(0, 7)) {
    for (const perSecond of RATES) {
      const all: number[][] = [];
      for (let round = 0; round < rounds; round += 1) all.push(await timed(one, perSecond));
      rows.push([
        `${one.name}, ${perSecond}/s`,
        ...(all[0] ?? []).map((_, column) =>
          spread(
            all.map((values) => values[column] ?? Number.NaN),
            1,
          ),
        ),
      ]);
    }
  }
  table(['', 'p50', 'p95', 'p99', 'received p50', 'received p95', 'received p99'], rows);
});
