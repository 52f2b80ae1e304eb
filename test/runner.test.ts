/** The runner of these tests: a run ends whatever a file leaves open, and no two processes get the same port. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { promisify } from 'node:util';
import { writeQueue } from './runner/queue.ts';
import { freePort } from './setup/free-port.ts';

const PATIENCE_MS = 100;
const run = promisify(execFile);

test('a file that fails and leaves a timer running is reported, and its process ends', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-runner-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'leaks.test.mjs');
  await writeFile(file, `setInterval(() => undefined, 1000); throw new Error('the address is in use');`);
  const files = [relative(join(import.meta.dirname, '..'), file)];
  // As a child of a test run, node prints results for its parent process.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const queue = writeQueue({ files, claims: folder, limit: 1, patienceMs: PATIENCE_MS });
  const worker = run(process.execPath, [join(import.meta.dirname, 'runner/worker.ts')], {
    env: { ...env, ...queue },
    timeout: 60_000,
  });
  await assert.rejects(worker, ({ killed, stdout }: { killed: boolean; stdout: string }) => {
    assert.equal(killed, false);
    assert.match(stdout, /✖ .*leaks\.test\.mjs \(/);
    assert.match(stdout, /✖ .*leaks\.test\.mjs closes what it opens/);
    return true;
  });
});

test('two processes that ask for ports in the same order get different ones', async (t) => {
  const askedAtOnce = 20;
  const module = JSON.stringify(new URL('setup/free-port.ts', import.meta.url).href);
  // Each thread has its own modules, but shares the process id from which the ports start.
  const asks = `import { parentPort } from 'node:worker_threads';
    const { freePort } = await import(${module});
    parentPort.once('message', () => undefined);
    parentPort.postMessage(await Promise.all(Array.from({ length: ${askedAtOnce} }, () => freePort())));`;
  const threads = [1, 2].map(() => new Worker(new URL(`data:text/javascript,${encodeURIComponent(asks)}`)));
  t.after(() => Promise.all(threads.map((thread) => thread.terminate())));
  const answers = await Promise.all(
    threads.map((thread) => new Promise<number[]>((resolve) => void thread.once('message', resolve))),
  );
  const ports = [...answers.flat(), await freePort()];
  assert.equal(new Set(ports).size, 2 * askedAtOnce + 1);
});
