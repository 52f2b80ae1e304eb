/**
 * P6: the token endpoint beside oidc-provider over the same PostgreSQL, refresh and code exchange, and the statements that
 * each costs. With `--profile` also where our process spends its time on refreshes.
 */
import { readFile } from 'node:fs/promises';
import { startChild } from './setup/child.ts';
import { startDatabase } from './setup/database.ts';
import type { HttpLoadProcess } from './setup/http-load-process.ts';
import { createTables } from './setup/oidc-adapter.ts';
import { printProfile, profiling } from './setup/profile.ts';
import { bench, heading, print } from './setup/run.ts';
import { quantile, ratios, spread, table } from './setup/table.ts';
import { exchangeBody, redeemAll, refreshBody, seedClient } from './setup/token-seed.ts';
import { rivalOf, serverOf, type Side, type Start } from './setup/token-sides.ts';

const GOAL = 2;
const STATEMENTS_GOAL = { refresh: 2, 'code exchange': 4 } as const;
const PROFILE_ROWS = 25;

const numbers = { rounds: 5, count: 1_000, few: 16, many: 64, grants: 2_000 };

type Operation = keyof typeof STATEMENTS_GOAL;
const operations: readonly Operation[] = ['refresh', 'code exchange'];

type Round = { perSecond: number; p50: number; p99: number; server: number; postgres: number; loader: number };

await bench({ numbers, flags: ['profile'] }, async (options, defer) => {
  const { rounds, count } = options;
  const database = await startDatabase(defer);
  await createTables(database.sql);
  const seeded = await seedClient(database.sql);
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));
  const starts = [serverOf(database, seeded), rivalOf(database, seeded, true), rivalOf(database, seeded, false)];
  const bodiesOf = new Map<Side, string[]>();
  const withGrants = async (start: Start, given: Parameters<Start>[1] = {}): Promise<Side> => {
    const side = await start(defer, given);
    const tokens = await redeemAll(load, side.target, await side.newCodes(options.grants));
    bodiesOf.set(side, tokens.map(refreshBody));
    return side;
  };
  const sides: Side[] = [];
  for (const start of starts) sides.push(await withGrants(start));

  const rivalPackage = new URL('../package.json', import.meta.resolve('oidc-provider'));
  const { version } = JSON.parse(await readFile(rivalPackage, 'utf8')) as { version: string };
  heading('P6: POST /token, client_secret_basic, stable refresh tokens, durable');
  print(`Halcyon: ${sides[0]?.settings}; a process of its own`);
  print(`rival  oidc-provider ${version}: ${sides[1]?.settings}; a process of its own`);
  print('       its adapter: one table, id as the key, jsonb, prepared, one statement a call; a person costs it none');
  print('       once with its client in the table, as in Halcyon, and once in its configuration');
  print(`both   PostgreSQL: ${database.settings}`);
  print('load   undici in a process of its own; two cores carry it, the server and PostgreSQL');

  const bodies = async (side: Side, operation: Operation, wanted: number): Promise<string[]> => {
    if (operation === 'code exchange') return (await side.newCodes(wanted)).map(exchangeBody);
    const all = bodiesOf.get(side) ?? [];
    return Array.from({ length: wanted }, (_, n) => all[n % all.length] ?? '');
  };
  const burst = async (side: Side, operation: Operation, connections: number, wanted: number) => {
    const given = { target: side.target, bodies: await bodies(side, operation, wanted), connections, keeps: false };
    return async () => {
      const loaded = await load.ask('burst', given);
      const [failure] = loaded.failures;
      if (failure !== undefined) throw new Error(`${side.name}: ${loaded.failures.length} failed, first ${failure}`);
      return loaded;
    };
  };
  const measure = async (side: Side, operation: Operation, connections: number): Promise<Round> => {
    const run = await burst(side, operation, connections, count);
    const cpu = () => Promise.all([side.process, database, load].map((part) => part.cpuMs()));
    const before = await cpu();
    const { ms, latencies } = await run();
    const us = (await cpu()).map((used, index) => ((used - (before[index] ?? 0)) * 1_000) / count);
    const [server = 0, postgres = 0, loader = 0] = us;
    const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
    return { perSecond: (count / ms) * 1_000, p50, p99, server, postgres, loader };
  };

  for (const operation of operations) {
    for (const connections of [options.few, options.many]) {
      const results = sides.map((): Round[] => []);
      for (const side of sides) await measure(side, operation, connections);
      for (let round = 0; round < rounds; round += 1) {
        for (const [index, side] of sides.entries()) {
          results[index]?.push(await measure(side, operation, connections));
        }
      }
      heading(`${operation}, ${connections} connections: ${rounds} rounds of ${count}, median (lowest–highest)`);
      const pick = (index: number, key: keyof Round) => results[index]?.map((round) => round[key]) ?? [];
      table(
        ['', 'a second', 'Halcyon ÷ it', 'p50 ms', 'p99 ms', 'server µs', 'PostgreSQL µs', 'loader µs'],
        sides.map(({ name }, index) =>
          [
            name,
            spread(pick(index, 'perSecond')),
            spread(ratios(pick(0, 'perSecond'), pick(index, 'perSecond')), 2),
            (['p50', 'p99'] as const).map((key) => spread(pick(index, key), 1)),
            (['server', 'postgres', 'loader'] as const).map((key) => spread(pick(index, key))),
          ].flat(),
        ),
      );
    }
  }
  print(
    `µs: processor time a request. Goal of P6: ${GOAL} times the rival. No request failed, or this had ended with it.`,
  );

  heading('Statements a request, BEGIN and COMMIT counted');
  const rows: string[][] = [];
  for (const start of starts) {
    const side = await withGrants(start, { counts: true });
    const row = [side.name];
    for (const operation of operations) {
      const run = await burst(side, operation, options.few, count);
      const before = await side.statements();
      await run();
      row.push((((await side.statements()) - before) / count).toFixed(3));
    }
    rows.push(row);
    await side.process.stop();
  }
  rows.push(['goal of P6', ...operations.map((operation) => `≤ ${STATEMENTS_GOAL[operation]}`)]);
  table(['', ...operations], rows);

  if (!options.profile) return;
  const { folder, execArgv } = await profiling(defer);
  const profiled = await withGrants(serverOf(database, seeded), { execArgv });
  for (let round = 0; round < rounds; round += 1) await (await burst(profiled, 'refresh', options.many, count))();
  await profiled.process.stop();
  await printProfile('our server', folder, PROFILE_ROWS);
});
