/**
 * What purging a million expired rows does to who is served meanwhile: refreshes at half of what the server can do, with
 * and without the real housekeeping in the same process. `--batch` and `--pause` try others than the settings of config.ts.
 */
import { randomBytes } from 'node:crypto';
import { readConfig } from '../src/config/config.ts';
import { freePort } from '../test/setup/free-port.ts';
import { startChild } from './setup/child.ts';
import { startDatabase } from './setup/database.ts';
import { seedExpiredCodes, seedExpiredTokens, settle } from './setup/expired-seed.ts';
import type { HttpLoadProcess } from './setup/http-load-process.ts';
import { bench, heading, print } from './setup/run.ts';
import { quantile, spread, table } from './setup/table.ts';
import type { TokenProcess } from './setup/token-process.ts';
import { basic, redeemAll, refreshBody, seedClient, seedCodes } from './setup/token-seed.ts';

/** A limit of ten per cent means at least this much (design/measurements.md, Method). */
const LEAST_LIMIT_MS = 2;
const GRANTS = 2_000;
const CONNECTIONS = 64;
/** To learn what the server can do. */
const CAPACITY_REQUESTS = 8_000;

const { batchRows, pauseMs } = readConfig({}, '/').housekeeping;
const numbers = {
  rounds: 15,
  seconds: 2,
  rows: 650_000,
  codes: 400_000,
  batch: batchRows,
  pause: pauseMs,
  percent: 50,
};

type Round = { p50: number; p99: number; max: number; rowsPerSecond: number; server: number; postgres: number };

await bench({ numbers }, async ({ rounds, seconds, rows, codes, batch, pause, percent }, defer) => {
  const database = await startDatabase(defer);
  const { sql } = database;
  const seeded = await seedClient(sql);
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));
  const server = await startChild<TokenProcess>(defer, import.meta.resolve('./setup/token-process.ts'));
  const port = await freePort();
  const { address } = database;
  const settings = await server.ask('start', { address, port, secretKey: randomBytes(32), counts: false });
  const target = { origin: `http://127.0.0.1:${port}`, path: '/token', authorization: basic(seeded.credentials) };
  const tokens = await redeemAll(load, target, await seedCodes(sql, seeded, GRANTS));
  const bodies = tokens.map(refreshBody);

  heading(`Purge: ${rows} access tokens and ${codes} codes with their grants, all expired, beside refreshes`);
  print(`server  ${settings}; housekeeping in the same process, batches of ${batch}, pauses of ${pause} ms`);
  print(`        PostgreSQL: ${database.settings}`);
  await seedExpiredTokens(sql, rows);
  await seedExpiredCodes(sql, seeded, codes);
  await settle(sql);
  const burst = () =>
    load.ask('burst', {
      target,
      bodies: Array.from({ length: CAPACITY_REQUESTS }, (_, n) => bodies[n % bodies.length] ?? ''),
      connections: CONNECTIONS,
      keeps: false,
    });
  await burst();
  const capacity = (CAPACITY_REQUESTS / (await burst()).ms) * 1_000;
  const perSecond = Math.round((capacity * percent) / 100);
  print(
    `load    open loop, ${perSecond} refreshes a second of the ${Math.round(capacity)} it can do; undici in a process`,
  );
  print('        of its own; two cores carry it, the server and PostgreSQL');

  const cpu = () => Promise.all([server.cpuMs(), database.cpuMs()]);
  const measure = async (what: string | undefined): Promise<Round> => {
    const before = await cpu();
    if (what !== undefined) await server.ask('purge', { what, batchRows: batch, pauseMs: pause });
    const { latencies, failures, ms } = await load.ask('stream', {
      target,
      bodies,
      connections: CONNECTIONS,
      perSecond,
      seconds,
    });
    const purged = what === undefined ? 0 : await server.ask('endPurge', null);
    const [usedServer = 0, usedPostgres = 0] = (await cpu()).map((used, index) => used - (before[index] ?? 0));
    const [failure] = failures;
    if (failure !== undefined) throw new Error(`${failures.length} refreshes failed, the first with ${failure}`);
    return {
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      max: Math.max(...latencies),
      rowsPerSecond: (purged / ms) * 1_000,
      server: usedServer / ms,
      postgres: usedPostgres / ms,
    };
  };

  const ways = [
    { name: 'no purge', what: undefined },
    { name: 'access tokens purged', what: 'access_tokens' },
    { name: 'codes purged, and their grants', what: 'authorization_codes' },
  ] as const;
  const results = ways.map((): Round[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { what }] of ways.entries()) results[index]?.push(await measure(what));
  }
  const left = await sql<{ tokens: number; codes: number }[]>`
    select (select count(*) from access_token where date_expires < now()) as tokens,
      (select count(*) from authorization_code where date_expires < now()) as codes`;
  for (const [what, count] of Object.entries(left[0] ?? {})) {
    if (count < batch) throw new Error(`All ${what} were purged before the end: give more by --rows or --codes`);
  }

  heading(`${rounds} rounds of ${seconds} s each: median (lowest–highest)`);
  const pick = (index: number, key: keyof Round) => results[index]?.map((round) => round[key]) ?? [];
  /** Round by round, so that what all suffered in a round falls out. */
  const moved = (index: number) => pick(index, 'p99').map((p99, round) => p99 - (pick(0, 'p99')[round] ?? Number.NaN));
  table(
    ['', 'p50 ms', 'p99 ms', 'p99 moves by ms', 'longest ms', 'rows a second', 'server cores', 'PostgreSQL cores'],
    ways.map(({ name }, index) =>
      [
        name,
        (['p50', 'p99'] as const).map((key) => spread(pick(index, key), 1)),
        spread(moved(index), 1),
        spread(pick(index, 'max')),
        spread(pick(index, 'rowsPerSecond')),
        (['server', 'postgres'] as const).map((key) => spread(pick(index, key), 2)),
      ].flat(),
    ),
  );
  const limitMs = Math.max(LEAST_LIMIT_MS, quantile(pick(0, 'p99'), 0.5) / 10);
  print(
    `Goal: p99 moves by ${limitMs.toFixed(1)} ms at most (the greater of 10 % and ${LEAST_LIMIT_MS} ms). No refresh failed.`,
  );
});
