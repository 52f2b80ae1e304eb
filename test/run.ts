/**
 * Runs test files with one PostgreSQL for all of them: `npm test` and `npm run test:long`.
 *
 *     node test/run.ts [--isolated] [--part] [--one-of <n>] [--minutes <n>] <glob> …
 *
 * Files share processes, because loading Halcyon's modules takes longer than most of them run: with a process for each
 * file `npm test` took 460 s of processor time, this way it takes 270 s. `--isolated` gives each file a process of its
 * own: for files that run for minutes. With `--part` those do less of what they repeat (setup/amount.ts). With `--one-of 7` a
 * seventh of the files runs, each day another one. With `--minutes 4` (and `--isolated`) no file starts later than that: changed
 * test files run first, then the others from another place each day, and those that did not run are printed.
 */
import { globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run, type RunOptions, type TestsStream } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { changesSinceComplete, rotated } from './runner/changed.ts';
import { recordPassed } from './runner/passed.ts';
import { FILE_TIMEOUT_MS, writeQueue } from './runner/queue.ts';
import { globalSetup, globalTeardown } from './setup/global.ts';

const ROOT = join(import.meta.dirname, '..');
const WORKER = join(import.meta.dirname, 'runner/worker.ts');
/** Modules stay in memory, and with them the servers that a file started: 60 files leave 0.5 GB, 120 leave 1.1 GB. */
const FILES_PER_PROCESS = 60;
/** Kept-alive connections and timers end by themselves in this time. */
const PATIENCE_MS = 15_000;
const DAY_MS = 86_400_000;
/**
 * What they measure, other files on the same cores and disk change: latencies, and the seconds that a receiver has for its response.
 * With `--isolated` each runs alone, after all others, and with `--minutes` not at all.
 */
const MEASURES: ReadonlySet<string> = new Set([
  'test/faults/hostile-receivers.test.ts',
  'test/faults/locked-row.test.ts',
  'test/faults/servers.test.ts',
]);
const WORKER_TIMEOUT_MS = 60 * 60_000;
/** node:test follows every promise of a file. With the default of 16 MiB their collection takes 5 % more of the processor time of a file. */
const NEW_SPACE = '--max-semi-space-size=64';

const { values: options, positionals: globs } = parseArgs({
  options: {
    isolated: { type: 'boolean', default: false },
    part: { type: 'boolean', default: false },
    'one-of': { type: 'string', default: '1' },
    minutes: { type: 'string', default: 'Infinity' },
  },
  allowPositionals: true,
});
/**
 * Tests wait for other processes and for timers, half of the time of all files. Files with a process of their own start further ones.
 */
const processes = availableParallelism() + (options.isolated ? 1 : 3);
process.chdir(ROOT);
if (options.part && process.env['HALCYON_TEST_WHOLE'] === undefined) process.env['HALCYON_TEST_PART'] = '1';
const parts = Number(options['one-of']);
if (!(Number.isInteger(parts) && parts > 0)) throw new Error('--one-of must be a whole number, such as 7');
const minutes = Number(options.minutes);
if (!(minutes > 0)) throw new Error('--minutes must be a number above 0, such as 4');
const isLimited = Number.isFinite(minutes);
if (isLimited && !options.isolated) throw new Error('--minutes needs --isolated');
const today = Math.floor(Date.now() / DAY_MS);
const files = [...new Set(globs.flatMap((glob) => globSync(glob).toSorted()))].filter(
  (_, index) => index % parts === today % parts,
);
if (files.length === 0) throw new Error('No test file matches: name globs such as "src/**/*.test.ts"');

/** Changed test files first, then the others in rotation; the time is compared after each round of one file for each process. */
function inRounds(all: readonly string[]): string[][] {
  const changes = changesSinceComplete()?.files ?? new Set<string>();
  const order = rotated(all, today).toSorted((a, b) => Number(changes.has(b)) - Number(changes.has(a)));
  return Array.from({ length: Math.ceil(order.length / processes) }, (_, round) =>
    order.slice(round * processes, (round + 1) * processes),
  );
}

/** Leaves out the lines of tests that pass, of which there are 7,000: a line for each file shows the progress. */
async function* withoutPassed(events: TestsStream) {
  for await (const event of events) {
    const isPassed = event.type === 'test:pass' && event.data.nesting > 0;
    if (event.type !== 'test:start' && !isPassed) yield event;
  }
}

const startedMs = performance.now();
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => interrupted.abort());

const claims = await mkdtemp(join(tmpdir(), 'halcyon-test-claims-'));
try {
  await globalSetup();
  const shared = files.filter((file) => !MEASURES.has(file));
  const how: RunOptions[] = options.isolated
    ? (isLimited ? inRounds(shared) : [shared, ...files.filter((file) => MEASURES.has(file)).map((file) => [file])])
        .filter(({ length }) => length > 0)
        .map((some) => ({ files: some, timeout: FILE_TIMEOUT_MS }))
    : [
        {
          // A few more than the files need: when the first processes reach their limit, each has a successor, which shares the last files.
          files: Array.from({ length: Math.ceil(files.length / FILES_PER_PROCESS) + processes - 1 }, () => WORKER),
          execArgv: [NEW_SPACE],
          timeout: WORKER_TIMEOUT_MS,
          env: { ...process.env, ...writeQueue({ files, claims, limit: FILES_PER_PROCESS, patienceMs: PATIENCE_MS }) },
        },
      ];
  const excluded = new Set(isLimited ? files : []);
  for (const one of how) {
    if (performance.now() - startedMs > minutes * 60_000) break;
    for (const file of one.files ?? []) excluded.delete(file);
    const events = run({ ...one, isolation: 'process', concurrency: processes, signal: interrupted.signal });
    events.on('test:fail', () => (process.exitCode = 1));
    const save = recordPassed(events, { isGrouped: !options.isolated });
    await pipeline(events.compose(withoutPassed).compose(spec), process.stdout, { end: false });
    // The mutations run with one database.
    if (process.env['HALCYON_TEST_DATABASES'] === undefined) save();
  }
  if (excluded.size > 0)
    console.log(`Not run, because no file starts after ${minutes} min: ${[...excluded].join(' ')}`);
} finally {
  await globalTeardown();
  await rm(claims, { recursive: true, force: true });
}
