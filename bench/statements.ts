/** P3: SQL statements an event, from publish to recorded, with one match, under load; and its bytes of WAL and on disk. */
import type { Child } from './setup/child.ts';
import type { EngineProcess } from './setup/engine-process.ts';
import { bench, heading, print } from './setup/run.ts';
import { publishAndRecord, startScene } from './setup/scene.ts';
import { REPRESENTATION_BYTES } from './setup/seed.ts';
import type { StatementCounts } from './setup/statement-kinds.ts';
import { spread, table } from './setup/table.ts';

const GOAL = 1;
/** The best published rival, as design/measurements.md names it; it cannot be run here. */
const PUBLISHED_RIVAL = 31.7;

const numbers = { rounds: 5, count: 20_000, endpoints: 500, clients: 64, array: 100 };

type Round = { statements: StatementCounts; walBytes: number; diskBytes: number; perSecond: number };

const total = (counts: StatementCounts): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

await bench({ numbers }, async ({ rounds, count, endpoints, clients, array }, defer) => {
  const scene = await startScene(defer, { endpoints });
  const { sql } = scene.database;
  const walAt = async (): Promise<number> => {
    const [row] = await sql<{ at: number }[]>`select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as at`;
    return row?.at ?? 0;
  };
  /** Returns the size of all tables with their indexes, in bytes. */
  const sizeNow = async (): Promise<number> => {
    const [row] = await sql<{ bytes: number }[]>`
      select sum(pg_total_relation_size(oid))::float8 as bytes from pg_class
      where relkind = 'r' and relnamespace = 'public'::regnamespace`;
    return row?.bytes ?? 0;
  };
  heading(`P3: ${endpoints} stores, one webhook each, representations of ${REPRESENTATION_BYTES} bytes`);
  print(`rival  ${PUBLISHED_RIVAL} statements an event (published, not run here); goal of P3: under ${GOAL}`);
  print(`Halcyon: PostgreSQL: ${scene.database.settings}`);

  const loads = [
    { name: `arrays of ${array}, 16 at once`, requests: Math.ceil(count / array), arrayOf: array, concurrent: 16 },
    { name: `one event a request, ${clients} at once`, requests: count, arrayOf: 1, concurrent: clients },
  ];
  let from = 0;
  const measure = async (engines: readonly Child<EngineProcess>[], load: (typeof loads)[number]): Promise<Round> => {
    const [publisher] = engines;
    if (publisher === undefined) throw new Error('No publisher');
    const counted = () => Promise.all(engines.map((engine) => engine.ask('counts', null)));
    const before = await counted();
    const [walBefore, sizeBefore] = [await walAt(), await sizeNow()];
    const { ms } = await publishAndRecord(scene, publisher, { ...load, storeIds: scene.storeIds, from });
    const events = load.requests * load.arrayOf;
    from += events;
    const statements: StatementCounts = {};
    for (const [index, counts] of (await counted()).entries()) {
      for (const [kind, now] of Object.entries(counts)) {
        statements[kind] = (statements[kind] ?? 0) + (now - (before[index]?.[kind] ?? 0)) / events;
      }
    }
    const [walBytes, diskBytes] = [(await walAt()) - walBefore, (await sizeNow()) - sizeBefore];
    return {
      statements,
      walBytes: walBytes / events,
      diskBytes: diskBytes / events,
      perSecond: (events / ms) * 1_000,
    };
  };

  /** One layout of processes: each load once to warm up, then in turn. */
  const run = async (layout: string, engines: readonly Child<EngineProcess>[]): Promise<void> => {
    const results = loads.map((): Round[] => []);
    for (const load of loads) await measure(engines, load);
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, load] of loads.entries()) results[index]?.push(await measure(engines, load));
    }
    heading(`${layout}: ${rounds} rounds of ${count} events, median (lowest–highest)`);
    table(
      ['', 'statements an event', 'WAL bytes an event', 'bytes on disk an event', 'recorded a second'],
      loads.map(({ name }, index) => {
        const all = results[index] ?? [];
        const statements = spread(
          all.map((round) => total(round.statements)),
          3,
        );
        const others = (['walBytes', 'diskBytes', 'perSecond'] as const).map((key) =>
          spread(all.map((one) => one[key])),
        );
        return [name, statements, ...others];
      }),
    );
    for (const [index, { name }] of loads.entries()) {
      const kinds = Object.entries(results[index]?.at(-1)?.statements ?? {}).toSorted(([, a], [, b]) => b - a);
      print(`  of the last, ${name}: ${kinds.map(([kind, share]) => `${kind} ${share.toFixed(3)}`).join(' · ')}`);
    }
    for (const engine of engines) await engine.stop();
  };

  const whole = await scene.startEngine({ delivers: true, counts: true });
  await run('One process publishes and delivers', [whole.engine]);
  const publisher = await scene.startEngine({ delivers: false, counts: true });
  const worker = await scene.startEngine({ delivers: true, counts: true });
  await run('One process publishes, another delivers', [publisher.engine, worker.engine]);
});
