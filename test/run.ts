/**
 * Runs test files with one PostgreSQL for all of them: `npm test` and `npm run test:long`.
 *
 *     node test/run.ts [--isolated] [--part] [--one-of <n>] <glob> …
 *
 * Files share processes, because loading Halcyon's modules takes longer than most of them run: with a process for each
 * file `npm test` took 460 s of processor time, this way it takes 270 s. `--isolated` gives each file a process of its
 * own: for files that run for minutes. With `--part` those do less of what they repeat (setup/amount.ts). With `--one-of 7` a
 * seventh of the files runs, each day another one.
 */
import { globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run, type RunOptions } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { recordPassed } from './runner/passed.ts';
import { FILE_TIMEOUT_MS, writeQueue } from './runner/queue.ts';
import { globalSetup, globalTeardown } from './setup/global.ts';

const ROOT = join(import.meta.dirname, '..');
const WORKER = join(import.meta.dirname, 'runner/worker.ts');
/** Tests wait for other processes a third of the time, so one more than there are cores. */
const PROCESSES = availableParallelism() + 1;
/** Modules stay in memory, and with them the servers that a file started: 45 files leave 400 MB, 120 leave 1.1 GB. */
const FILES_PER_PROCESS = 45;
/** Kept-alive connections and timers end by themselves in this time. */
const PATIENCE_MS = 15_000;
const DAY_MS = 86_400_000;
/** Compares latencies, which other files on the same cores and disk change: run after all others, with `--isolated`. */
const MEASURES = 'test/faults/servers.test.ts';
const WORKER_TIMEOUT_MS = 60 * 60_000;

const { values: options, positionals: globs } = parseArgs({
  options: {
    isolated: { type: 'boolean', default: false },
    part: { type: 'boolean', default: false },
    'one-of': { type: 'string', default: '1' },
  },
  allowPositionals: true,
});
process.chdir(ROOT);
if (options.part) process.env['HALCYON_TEST_PART'] = '1';
const parts = Number(options['one-of']);
if (!(Number.isInteger(parts) && parts > 0)) throw new Error('--one-of must be a whole number, such as 7');
const today = Math.floor(Date.now() / DAY_MS);
const files = [...new Set(globs.flatMap((glob) => globSync(glob).toSorted()))].filter(
  (_, index) => index % parts === today % parts,
);
if (files.length === 0) throw new Error('No test file matches: name globs such as "src/**/*.test.ts"');

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => interrupted.abort());

const claims = await mkdtemp(join(tmpdir(), 'halcyon-test-claims-'));
try {
  await globalSetup();
  const how: RunOptions[] = options.isolated
    ? [files.filter((file) => file !== MEASURES), files.filter((file) => file === MEASURES)]
        .filter(({ length }) => length > 0)
        .map((some) => ({ files: some, timeout: FILE_TIMEOUT_MS }))
    : [
        {
          files: Array.from({ length: Math.ceil(files.length / FILES_PER_PROCESS) }, () => WORKER),
          timeout: WORKER_TIMEOUT_MS,
          env: { ...process.env, ...writeQueue({ files, claims, limit: FILES_PER_PROCESS, patienceMs: PATIENCE_MS }) },
        },
      ];
  for (const one of how) {
    const events = run({ ...one, isolation: 'process', concurrency: PROCESSES, signal: interrupted.signal });
    events.on('test:fail', () => (process.exitCode = 1));
    const save = recordPassed(events, { isGrouped: !options.isolated });
    await pipeline(events.compose(spec), process.stdout, { end: false });
    // The mutations run with one database.
    if (process.env['HALCYON_TEST_DATABASES'] === undefined) save();
  }
} finally {
  await globalTeardown();
  await rm(claims, { recursive: true, force: true });
}
