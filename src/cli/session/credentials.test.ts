import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { until } from '../../../test/setup/until.ts';
import { openCredentials, type Login } from './credentials.ts';

const login = (token: string): Login => ({
  issuer: 'https://auth.example.com',
  token_endpoint: 'https://api.example.com/token',
  revocation_endpoint: 'https://auth.example.com/revoke',
  access_token: token,
  refresh_token: token,
  expires: '2026-11-20T16:05:03.000Z',
  scope: 'store_full_access store_id_1',
});

async function place(t: TestContext) {
  const home = await mkdtemp(join(tmpdir(), 'halcyon-credentials-'));
  t.after(() => rm(home, { recursive: true }));
  return { env: { XDG_CONFIG_HOME: home }, folder: join(home, 'halcyon') };
}

/** What each of eight concurrent writers finds in the file; each has its own opening, as separate processes do. */
async function changedAtOnce(env: Record<string, string>): Promise<Set<string | undefined>> {
  const seen = new Set<string | undefined>();
  const all = Array.from({ length: 8 }, (_, n) =>
    openCredentials({ env }).change('https://api.example.com', async (before) => {
      seen.add(before?.refresh_token);
      return login(String(n));
    }),
  );
  await Promise.all(all);
  return seen;
}

test('concurrent writers each see the change of the one before', async (t) => {
  const { env, folder } = await place(t);
  assert.equal((await changedAtOnce(env)).size, 8, 'no writer starts from a replaced version');
  assert.deepEqual(await readdir(folder), ['credentials.json']);
});

test('a lock left by a killed process expires, and then admits one process after the other', async (t) => {
  const { env, folder } = await place(t);
  await mkdir(folder, { recursive: true });
  const [old, young] = ['credentials.json.lock.old', 'credentials.json.lock.young'].map((name) => join(folder, name));
  assert.ok(old !== undefined && young !== undefined);
  for (const path of [old, young]) await writeFile(path, '');
  const longAgo = new Date(Date.now() - 120_000);
  await utimes(old, longAgo, longAgo);
  const changed = changedAtOnce(env);
  await until(
    () => readdir(folder),
    (names) => !names.includes(basename(old)),
  );
  assert.deepEqual(await openCredentials({ env }).read(), {}, 'the lock of a process that may be alive is respected');
  await rm(young);
  assert.equal((await changed).size, 8, 'of all processes that find it free at once, one continues');
  assert.deepEqual(await readdir(folder), ['credentials.json']);
});

test('a damaged file is reported and not overwritten', async (t) => {
  const { env, folder } = await place(t);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'credentials.json'), '{"https://');
  await assert.rejects(
    openCredentials({ env }).change('https://a.example', async () => login('x')),
    /delete it, and run halcyon login again/,
  );
});
