import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
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

const place = async (t: TestContext) => {
  const home = await mkdtemp(join(tmpdir(), 'halcyon-credentials-'));
  t.after(() => rm(home, { recursive: true }));
  return { env: { XDG_CONFIG_HOME: home }, folder: join(home, 'halcyon') };
};

test('of many who change something at once each sees what the one before has made', async (t) => {
  const { env, folder } = await place(t);
  const seen: (string | undefined)[] = [];
  // Each with an opening of its own, as processes have it.
  const all = Array.from({ length: 8 }, (_, n) =>
    openCredentials({ env }).change('https://api.example.com', async (before) => {
      seen.push(before?.refresh_token);
      return login(String(n));
    }),
  );
  await Promise.all(all);
  assert.equal(new Set(seen).size, 8, 'no one begins with what another has replaced');
  assert.deepEqual(await readdir(folder), ['credentials.json']);
});

test('what somebody who was killed has locked is free again after a while', async (t) => {
  const { env, folder } = await place(t);
  await mkdir(folder, { recursive: true });
  const lock = join(folder, 'credentials.json.lock');
  await writeFile(lock, '');
  const longAgo = new Date(Date.now() - 120_000);
  await utimes(lock, longAgo, longAgo);
  const credentials = openCredentials({ env });
  await credentials.change('https://api.example.com', async () => login('mine'));
  assert.equal((await credentials.read())['https://api.example.com']?.access_token, 'mine');
});

test('a file that is broken is said to be, and not overwritten', async (t) => {
  const { env, folder } = await place(t);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'credentials.json'), '{"https://');
  await assert.rejects(
    openCredentials({ env }).change('https://a.example', async () => login('x')),
    /delete it, and run halcyon login again/,
  );
});
