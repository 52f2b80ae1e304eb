/** The tasks of this process as tests, one after another; run by witness.ts in a process with hook.ts. */
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { readTasks, TASK_TIMEOUT_MS } from './task.ts';

const ROOT = join(import.meta.dirname, '../..');

const tasks = readTasks();
for (const [index, { testFile }] of tasks.entries()) {
  const { href } = pathToFileURL(join(ROOT, testFile));
  // A single task keeps the plain URL, under which Node.js has the compiled modules in its cache.
  const url = tasks.length === 1 ? href : `${href}?task=${index}`;
  test(testFile, { timeout: TASK_TIMEOUT_MS }, async () => {
    await import(url);
  });
}
