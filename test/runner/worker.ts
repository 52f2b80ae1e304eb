/**
 * Runs the files that it takes from the queue, one after another. Each is a test whose subtests are the tests of the
 * file, so hooks that the file registers run when the file ends. test/run.ts starts several of these processes.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { activeResources, leftBehind } from './leaks.ts';
import { FILE_TIMEOUT_MS, readQueue, takeFiles } from './queue.ts';

/** Results are on their way to the process that collects them for a few milliseconds. */
const REPORTED_MS = 1_000;
const ROOT = join(import.meta.dirname, '../..');

// They are pipes that open on first use, and not a leak of the file that uses them first.
void [process.stdin, process.stdout, process.stderr];

const queue = readQueue();
let isLeaking = false;
for (const file of takeFiles(queue)) {
  const before = activeResources();
  await test(file, { timeout: FILE_TIMEOUT_MS }, async () => {
    await import(join(ROOT, file));
  });
  const left = await leftBehind(before, queue.patienceMs);
  if (left.length > 0) {
    isLeaking = true;
    await test(`${file} closes what it opens`, () => assert.deepEqual(left, []));
  }
}
// What was left open would keep this process, and the whole run, from ending.
if (isLeaking) setTimeout(() => process.exit(1), REPORTED_MS);
