import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeAtomically } from './backup-command.ts';

test('of two simultaneous back-ups under one name, one is complete and the other is refused', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-file-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'halcyon.dump');
  const [begun, hurried] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slow = writeAtomically(path, async (part) => {
    await writeFile(part, 'half');
    begun.resolve();
    await hurried.promise;
    await writeFile(part, 'the slow one, whole');
  });
  await begun.promise;
  await writeAtomically(path, (part) => writeFile(part, 'the quick one, whole'));
  hurried.resolve();
  await assert.rejects(slow, /halcyon\.dump already exists/);
  assert.equal(await readFile(path, 'utf8'), 'the quick one, whole');
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(folder), ['halcyon.dump'], 'nothing is left behind');
});
