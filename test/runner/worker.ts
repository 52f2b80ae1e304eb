/**
 * Runs the files that it takes from the queue, one after another. Each is a test whose subtests are the tests of the
 * file, so hooks that the file registers run when the file ends. test/run.ts starts several of these processes.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { activeResources, leftBehind } from './leaks.ts';
import { FILE_TIMEOUT_MS, takeFiles } from './queue.ts';

const ROOT = join(import.meta.dirname, '../..');

// They are pipes that open on first use, and not a leak of the file that uses them first.
void [process.stdin, process.stdout, process.stderr];

for (const file of takeFiles()) {
  const before = activeResources();
  await test(file, { timeout: FILE_TIMEOUT_MS }, async () => {
    await import(join(ROOT, file));
  });
  const left = await leftBehind(before);
  // Alone, such a file would keep its process from ending.
  if (left.length > 0) await test(`${file} closes what it opens`, () => assert.deepEqual(left, []));
}
