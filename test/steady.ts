/**
 * Runs the fast tests several times under a condition, and prints each failed run with what failed: no test may fail by chance.
 *
 *     npm run test:steady -- --runs 10 --condition idle
 *     npm run test:steady -- --runs 5 --condition busy       beside two processes that never wait
 *     npm run test:steady -- --runs 5 --condition one-core   on one core (`taskset`, Linux)
 *     npm run test:steady -- --runs 20 --condition busy test/journeys/rotation.test.ts …
 *
 * The whole output of each failed run is kept in a file.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const BUSY_PROCESSES = 2;
/** The ticks of /proc, on all platforms that Linux supports. */
const TICKS_PER_SECOND = 100;
const FAILURE = /^\s*✖ (?!failing tests).+$/gm;

const CONDITIONS = ['idle', 'busy', 'one-core'] as const;
type Condition = (typeof CONDITIONS)[number];

const { values: options, positionals: files } = parseArgs({
  options: { runs: { type: 'string', default: '1' }, condition: { type: 'string', default: 'idle' } },
  allowPositionals: true,
});
const runs = Number(options.runs);
if (!(Number.isInteger(runs) && runs > 0)) throw new Error('--runs must be a whole number, such as 10');
const condition = CONDITIONS.find((one): one is Condition => one === options.condition);
if (condition === undefined) throw new Error(`--condition must be one of ${CONDITIONS.join(', ')}`);

/** Returns the processor seconds of all ended child processes, user and system; NaN where there is no /proc. */
async function childSeconds(): Promise<number> {
  const text = await readFile('/proc/self/stat', 'utf8').catch(() => '');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
}

function startBusy(): ChildProcess[] {
  const count = condition === 'busy' ? BUSY_PROCESSES : 0;
  return Array.from({ length: count }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
}

async function runOnce(): Promise<{ code: number | null; output: string }> {
  const tests =
    files.length === 0 ? ['npm', 'test'] : [process.execPath, join(import.meta.dirname, 'run.ts'), ...files];
  const [command = '', ...args] = condition === 'one-core' ? ['taskset', '-c', '0', ...tests] : tests;
  const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => void chunks.push(chunk));
  await once(child, 'close');
  return { code: child.exitCode, output: Buffer.concat(chunks).toString() };
}

const folder = await mkdtemp(join(tmpdir(), 'halcyon-steady-'));
let failed = 0;
for (let run = 1; run <= runs; run += 1) {
  const busy = startBusy();
  const startedMs = performance.now();
  const processorBefore = await childSeconds();
  try {
    const { code, output } = await runOnce();
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    const processor = Math.round((await childSeconds()) - processorBefore);
    console.log(
      `run ${run} of ${runs}, ${condition}: ${code === 0 ? 'green' : 'RED'}, ${seconds} s, processor ${processor} s`,
    );
    if (code === 0) continue;
    failed += 1;
    const file = join(folder, `${run}.log`);
    await writeFile(file, output);
    const failures = new Set(output.match(FAILURE)?.map((line) => line.trim()));
    console.log([...failures, `The whole output: ${file}`].map((line) => `  ${line}`).join('\n'));
  } finally {
    const ended = busy.map((one) => once(one, 'close'));
    for (const one of busy) one.kill('SIGKILL');
    await Promise.all(ended);
  }
}
console.log(`${failed} of ${runs} runs failed, ${condition}`);
if (failed > 0) process.exitCode = 1;
