/** Where a process spent its time: a V8 profile as a table of functions, and of the files they stand in. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sql } from '#db/pool.ts';
import { heading, type Defer } from './run.ts';
import { kindOf } from './statement-kinds.ts';
import { table } from './table.ts';

/** What is used of the `.cpuprofile` format (Chrome DevTools Protocol, Profiler.Profile). */
type Profile = {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
};

const ROOT = join(import.meta.dirname, '../..');
const IDLE = new Set(['(idle)', '(root)', '(program)']);
const INTERVAL_US = 500;

/** A folder for profiles, and the arguments that make Node write them there. */
export async function profiling(defer: Defer): Promise<{ folder: string; execArgv: string[] }> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-profile-'));
  defer(() => rm(folder, { recursive: true, force: true }));
  return { folder, execArgv: ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-interval=${INTERVAL_US}`] };
}

function placeOf(url: string): string {
  if (!url.startsWith('file:')) return url || '(native)';
  return relative(ROOT, fileURLToPath(url)).replace(/^.*node_modules\//, '');
}

function selfTimes({ nodes, samples, timeDeltas }: Profile, nameOf: (node: Profile['nodes'][number]) => string) {
  const names = new Map(nodes.map((node) => [node.id, nameOf(node)]));
  const times = new Map<string, number>();
  for (const [index, id] of samples.entries()) {
    const name = names.get(id) ?? '';
    times.set(name, (times.get(name) ?? 0) + (timeDeltas[index] ?? 0));
  }
  return times;
}

function printTop(title: string, times: Map<string, number>, rows: number) {
  const busy = [...times].filter(([name]) => !IDLE.has(name)).toSorted(([, a], [, b]) => b - a);
  const totalUs = busy.reduce((sum, [, us]) => sum + us, 0);
  heading(`${title}, of ${Math.round(totalUs / 1_000)} ms busy`);
  const share = (us: number) => `${((100 * us) / totalUs).toFixed(1)} %`;
  table(
    ['where', 'self ms', 'share'],
    busy.slice(0, rows).map(([name, us]) => [name, String(Math.round(us / 1_000)), share(us)]),
  );
}

/** Prints the busiest functions and files of the one profile in the folder. */
export async function printProfile(title: string, folder: string, rows: number): Promise<void> {
  const [name] = await readdir(folder);
  if (name === undefined) throw new Error('No profile was written');
  const profile = JSON.parse(await readFile(join(folder, name), 'utf8')) as Profile;
  const isSpecial = (functionName: string) => functionName.startsWith('(');
  const byFunction = selfTimes(profile, ({ callFrame: { functionName, url, lineNumber } }) =>
    isSpecial(functionName) ? functionName : `${functionName || '(anonymous)'}  ${placeOf(url)}:${lineNumber + 1}`,
  );
  const byFile = selfTimes(profile, ({ callFrame: { functionName, url } }) =>
    isSpecial(functionName) ? functionName : placeOf(url),
  );
  printTop(`${title}: functions`, byFunction, rows);
  printTop(`${title}: files`, byFile, rows);
}

/** Prints what PostgreSQL did for `events` events, statement by statement; the database was started `observed`. */
export async function printStatements(sql: Sql, events: number): Promise<void> {
  const rows = await sql<{ query: string; calls: number; ms: number; rows: number; wal: number }[]>`
    select query, calls, total_exec_time as ms, rows, wal_bytes::float8 as wal from pg_stat_statements`;
  const kinds = Map.groupBy(rows, ({ query }) => kindOf(query));
  const sums = [...kinds].map(([kind, members]) => {
    const sum = (pick: (row: (typeof rows)[number]) => number) => members.reduce((all, row) => all + pick(row), 0);
    return { kind, calls: sum((row) => row.calls), ms: sum((row) => row.ms), wal: sum((row) => row.wal) };
  });
  heading('PostgreSQL: statements');
  table(
    ['statement', 'calls', 'ms a call', 'µs an event', 'WAL bytes an event'],
    sums
      .toSorted((a, b) => b.ms - a.ms)
      .map(({ kind, calls, ms, wal }) => [
        kind,
        String(calls),
        (ms / calls).toFixed(2),
        ((ms * 1_000) / events).toFixed(1),
        (wal / events).toFixed(0),
      ]),
  );
}

export async function forgetStatements(sql: Sql): Promise<void> {
  await sql`select pg_stat_statements_reset()`;
}
