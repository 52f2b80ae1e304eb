import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openKeyFile, openNextKey, promoteNextKey } from './key-file.ts';

const HOUR_MS = 3_600_000;

async function openFolder(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-keys-'));
  t.after(() => rm(folder, { recursive: true }));
  const open = async (nowMs = Date.now()) => (await openKeyFile(folder, nowMs)).keys.map((key) => key.toString('hex'));
  return { folder, open, path: join(folder, 'secret-key') };
}

test('the key is created once, readable by this user only, and found by the next call', async (t) => {
  const { folder, open, path } = await openFolder(t);
  const keys = await open();
  assert.equal(keys.length, 1);
  assert.deepEqual(await open(), keys);
  assert.equal(await readFile(path, 'utf8'), `${keys[0]}\n`);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(folder), ['secret-key']);
});

test('processes that create the key at the same time, such as a start and a command, all get the same key', async (t) => {
  const { folder, open, path } = await openFolder(t);
  const all = await Promise.all(Array.from({ length: 8 }, () => open()));
  const kept = (await readFile(path, 'utf8')).trim();
  assert.deepEqual(new Set(all.flat()), new Set([kept]));
  assert.deepEqual(await readdir(folder), ['secret-key']);
});

test('wherever a key change is interrupted, a start has both keys and the next change continues with the same ones', async (t) => {
  const { folder, open, path } = await openFolder(t);
  const [old] = await open();
  const fresh = (await openNextKey(folder)).toString('hex');
  assert.notEqual(fresh, old);
  assert.deepEqual(await open(), [old, fresh], 'encrypted with the old key until the change is complete');
  assert.equal((await openNextKey(folder)).toString('hex'), fresh);

  // The old key was moved aside, and then the machine lost power.
  await copyFile(path, `${path}.old`);
  assert.deepEqual(new Set(await open()), new Set([old, fresh]));
  assert.equal((await open())[0], old);
  assert.equal((await openNextKey(folder)).toString('hex'), fresh);
  // A half-written file of an earlier run does not interfere.
  await writeFile(`${path}.next.new`, 'ab');
  await writeFile(`${path}.old.new`, 'ab');

  assert.equal(await promoteNextKey(folder), `${path}.old`);
  assert.deepEqual(await open(), [fresh, old]);
  assert.equal((await stat(`${path}.old`)).mode & 0o777, 0o600);
  assert.ok(!(await readdir(folder)).includes('secret-key.next'));
});

test('the previous key is kept as long as repeats under idempotency keys are recognized, and then deleted', async (t) => {
  const { folder, open } = await openFolder(t);
  const [old] = await open();
  await openNextKey(folder);
  await promoteNextKey(folder);
  const [fresh] = await open();
  assert.deepEqual(await open(Date.now() + 24 * HOUR_MS), [fresh, old]);
  assert.deepEqual(await open(Date.now() + 26 * HOUR_MS), [fresh]);
  assert.deepEqual(await readdir(folder), ['secret-key']);
});

test('a second key change does not overwrite a key that is still needed', async (t) => {
  const { folder, open, path } = await openFolder(t);
  const [old] = await open();
  await openNextKey(folder);
  await promoteNextKey(folder);
  const keys = await open();
  await assert.rejects(openNextKey(folder), { name: 'Error', message: /secret-key\.old.* 20\d\d-/ });
  assert.deepEqual(await open(), keys);
  assert.equal(await readFile(`${path}.old`, 'utf8'), `${old}\n`);
  await open(Date.now() + 26 * HOUR_MS);
  assert.notEqual((await openNextKey(folder)).toString('hex'), keys[0]);
});

test('a file without a valid key is not replaced', async (t) => {
  const { open, path } = await openFolder(t);
  await open();
  await rename(path, `${path}.mine`);
  await writeFile(path, 'ab\n');
  await assert.rejects(open(), { name: 'DatabaseError', message: /secret-key .*\b64\b/ });
  assert.equal(await readFile(path, 'utf8'), 'ab\n');
});
