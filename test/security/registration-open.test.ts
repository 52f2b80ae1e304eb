/** POST /register with open registration: without authentication, but limited. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer({ OPEN_REGISTRATION: 'true' });
const register = (uri: string): Promise<Response> =>
  fetch(`${server.origin}/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [uri] }),
  });

test('any caller may register twenty clients, rejected ones not counted, and then one each three minutes', async () => {
  for (let tries = 0; tries < 25; tries += 1) assert.equal((await register('http://x.example')).status, 400);
  for (let made = 0; made < 20; made += 1) assert.equal((await register('https://x.example/cb')).status, 201);
  const refused = await register('https://x.example/cb');
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get('retry-after'), '180');
  server.wait(180_000);
  assert.equal((await register('https://x.example/cb')).status, 201);
  const rows = await server.sql`select from client where name = 'Unnamed app' and owner is null and not is_verified`;
  assert.equal(rows.length, 21);
});
