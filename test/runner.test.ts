/** The runner of these tests: a run ends whatever a file leaves open, and no two processes get the same port. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Worker } from 'node:worker_threads';
import { promisify } from 'node:util';
import { writeQueue } from './runner/queue.ts';
import { freePort } from './setup/free-port.ts';

const PATIENCE_MS = 100;
const run = promisify(execFile);

/** Writes a test file, and returns it with a run of a worker that takes it. */
async function runFile(t: TestContext, text: string) {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-runner-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'one.test.mjs');
  await writeFile(file, text);
  const files = [relative(join(import.meta.dirname, '..'), file)];
  // As a child of a test run, node prints results for its parent process.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const queue = writeQueue({ files, claims: folder, limit: 1, patienceMs: PATIENCE_MS });
  return run(process.execPath, [join(import.meta.dirname, 'runner/worker.ts')], {
    env: { ...env, ...queue },
    timeout: 60_000,
  });
}
type Failed = { killed: boolean; stdout: string };

test('a file that fails and leaves a timer running is reported, and its process ends', async (t) => {
  const text = `setInterval(() => undefined, 1000); throw new Error('the address is in use');`;
  await assert.rejects(runFile(t, text), ({ killed, stdout }: Failed) => {
    assert.equal(killed, false);
    assert.match(stdout, /✖ .*one\.test\.mjs \(/);
    assert.match(stdout, /✖ .*one\.test\.mjs closes what it opens/);
    return true;
  });
});

test('an error that no test awaits fails the test that caused it', async (t) => {
  const text = `import { after, test } from 'node:test';
    import { setTimeout as delay } from 'node:timers/promises';
    await delay(1);
    after(() => console.log('the end of the file'));
    test('innocent', () => delay(1));
    test('throws in a timer', (t) => {
      t.after(() => console.log('the end of the test'));
      setTimeout(() => { throw new Error('in a timer'); }, 1);
      return delay(50);
    });
    test('rejects', async () => {
      await delay(1);
      void (async () => { await delay(1); throw new Error('not awaited'); })();
      await delay(50);
    });`;
  await assert.rejects(runFile(t, text), ({ stdout }: Failed) => {
    const [tree = ''] = stdout.split('failing tests');
    for (const line of [/✔ innocent/, /✖ throws in a timer/, /✖ rejects/]) assert.match(tree, line);
    assert.ok(stdout.indexOf('the end of the test') < stdout.indexOf('the end of the file'));
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
