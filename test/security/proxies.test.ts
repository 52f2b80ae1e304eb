/** Which proxies are trusted to state the address of a request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createThrottle } from '#identity/accounts/throttle.ts';
import { createBrowser, startAuthorizationServer } from './oauth-server.ts';

/** Returns the address that the audit has for a failed sign-in with these headers. */
async function addressSeen(
  { origin, sql }: Awaited<ReturnType<typeof startAuthorizationServer>>,
  headers: Record<string, string>,
) {
  await createBrowser(origin).post('/sign-in', { email: 'unknown@example.com', password: 'wrong' }, headers);
  const [row] = await sql<{ address: string }[]>`
    select address from audit where action = 'sign_in_failed' order by id desc limit 1
  `;
  return row?.address;
}

const direct = await startAuthorizationServer();
const proxied = await startAuthorizationServer({ TRUSTED_PROXIES: '127.0.0.0/8, 10.0.0.0/8' });

test('without trusted proxies a forwarded address is ignored', async () => {
  const hostile = { 'X-Forwarded-For': '198.51.100.1', Forwarded: 'for=198.51.100.2', 'X-Real-IP': '198.51.100.3' };
  assert.equal(await addressSeen(direct, hostile), '127.0.0.1');
});

test('a trusted proxy states the address of the client', async () => {
  assert.equal(await addressSeen(proxied, { 'X-Forwarded-For': '198.51.100.1' }), '198.51.100.1');
});

test('of a chain the last address that no trusted proxy wrote counts, whatever comes before it', async () => {
  assert.equal(
    await addressSeen(proxied, { 'X-Forwarded-For': '203.0.113.9, 198.51.100.1, 10.0.0.3' }),
    '198.51.100.1',
  );
});

test('behind a trusted proxy other headers are ignored', async () => {
  assert.equal(await addressSeen(proxied, { Forwarded: 'for=198.51.100.2', 'X-Real-IP': '198.51.100.3' }), '127.0.0.1');
});

test('an invalid address is shortened and does no harm', async () => {
  const address = await addressSeen(proxied, { 'X-Forwarded-For': `unknown${'x'.repeat(500)}` });
  assert.match(address ?? '', /^unknownx{57}$/);
});

test('guesses with ever new forwarded addresses are counted for their real address', async () => {
  const throttle = createThrottle({ sql: direct.sql });
  const here = { limit: 'sign-in from address', subject: '127.0.0.1' } as const;
  while ((await throttle.take([here], direct.now())).allowed);
  const form = { email: 'unknown@example.com', password: 'wrong' };
  const page = await createBrowser(direct.origin).post('/sign-in', form, { 'X-Forwarded-For': '198.51.100.9' });
  assert.equal(page.status, 429);
});
