import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectionOf } from './dump.ts';
import { writeAtomically } from './backup-command.ts';

const argumentsOf = (url: string) => connectionOf({ kind: 'url', url });

test('the password goes into the environment, which other users of the machine cannot read', () => {
  const { name, env } = argumentsOf('postgres://ada:s%40cret@db.example:5433/halcyon?sslmode=require');
  assert.equal(name, 'postgres://ada@db.example:5433/halcyon?sslmode=require');
  assert.deepEqual(env, { PGPASSWORD: 's@cret' });
});

test('a password in the query, or with characters that are usually encoded, is taken out as well', () => {
  const all = {
    'postgres://db.example/halcyon?user=ada&password=s%26cret&sslmode=require':
      'postgres://db.example/halcyon?user=ada&sslmode=require',
    'postgres://db.example/halcyon?password=s%26cret': 'postgres://db.example/halcyon?',
    'postgres://ada@azure:s%26cret@db.example/halcyon': 'postgres://ada@azure@db.example/halcyon',
    'postgres://ada:s&cret@/halcyon': 'postgres://ada@/halcyon',
  };
  for (const [url, name] of Object.entries(all))
    assert.deepEqual(argumentsOf(url), { name, env: { PGPASSWORD: 's&cret' } });
});

test('several hosts are kept, and an address without a password is unchanged', () => {
  const many = argumentsOf('postgresql://ada:pw@one:5432,two:5433/halcyon?target_session_attrs=primary');
  assert.equal(many.name, 'postgresql://ada@one:5432,two:5433/halcyon?target_session_attrs=primary');
  for (const url of ['postgres:///halcyon', 'postgres://ada@db.example/halcyon'])
    assert.deepEqual(argumentsOf(url), { name: url, env: {} });
});

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
