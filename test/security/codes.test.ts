/** Authorization codes: valid for thirty seconds, once, for one client, one address and one verifier. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { send } from '../setup/send.ts';
import { until } from '../setup/until.ts';
import { CONNECTIONS, REDIRECT, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { newCode, redeem, read, wait, other, alpha, token } = server;

const outcome = ({ status, body }: Pick<Awaited<ReturnType<typeof redeem>>, 'status' | 'body'>) => [
  status,
  body['error'] ?? 'ok',
];
const OK = [200, 'ok'];
const INVALID_GRANT = [400, 'invalid_grant'];

test('fifty parallel redemptions of one code over two servers give exactly one 200', async () => {
  const second = await server.startSecond();
  const code = await newCode();
  const hash = createHash('sha256').update(code).digest();
  const form = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, ...server.client };
  const redeemAt = async (origin: string) => {
    const { status, text } = await send(`${origin}/token`, { method: 'POST', body: new URLSearchParams(form) });
    return { status, body: JSON.parse(text) as Record<string, unknown> };
  };
  // The row is locked until every connection of both servers has found the code unused and waits to use it: so it is a race
  // each time, whatever the load of the machine.
  const answers = await transaction(server.sql, async (tx) => {
    await tx`select from authorization_code where hash = ${hash} for update`;
    const asked = Promise.all(Array.from({ length: 50 }, (_, at) => redeemAt(at % 2 === 0 ? server.origin : second)));
    await until(
      () => waitingForLocks(server.sql),
      (count) => count >= 2 * CONNECTIONS,
    );
    return { asked };
  }).then(({ asked }) => asked);
  const winners = answers.filter(({ status }) => status === 200);
  assert.equal(winners.length, 1);
  for (const answer of answers) if (answer.status !== 200) assert.deepEqual(outcome(answer), INVALID_GRANT);
  const [{ tokens } = { tokens: 0 }] = await server.sql<{ tokens: number }[]>`
    select count(*) as tokens from access_token t join authorization_code c on c.grant_id = t.grant_id
    where c.hash = ${hash}`;
  assert.equal(tokens, 1, 'the losers left no token');
  // The contract: a reused code ends its grant, because the server cannot know which of the two clients is the thief.
  const [winner] = winners;
  assert.equal((await read(alpha, String(winner?.body['access_token']))).status, 401);
});

test('a code works after 29 seconds and not after 31', async () => {
  const [one, two] = [await newCode(), await newCode()];
  wait(29_000);
  assert.deepEqual(outcome(await redeem(one)), OK);
  wait(2_000);
  assert.deepEqual(outcome(await redeem(two)), INVALID_GRANT);
});

test('a code that its client presents again ends both tokens, also after the 30 seconds', async () => {
  for (const pauseMs of [0, 60_000]) {
    const code = await newCode();
    const { body } = await redeem(code);
    assert.equal((await read(alpha, String(body['access_token']))).status, 200);
    wait(pauseMs);
    assert.deepEqual(outcome(await redeem(code)), INVALID_GRANT);
    assert.equal((await read(alpha, String(body['access_token']))).status, 401);
    const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...server.client };
    assert.deepEqual(outcome(await token(refresh)), INVALID_GRANT);
  }
});

test('a code presented by another client is rejected, and still works for its own', async () => {
  const code = await newCode();
  assert.deepEqual(outcome(await redeem(code, other)), INVALID_GRANT);
  const first = await redeem(code);
  assert.deepEqual(outcome(first), OK);
  assert.deepEqual(outcome(await redeem(code, other)), INVALID_GRANT);
  assert.equal((await read(alpha, String(first.body['access_token']))).status, 200);
});

test('a used code with another redirect_uri or verifier is rejected without ending anything', async () => {
  const code = await newCode();
  const { body } = await redeem(code);
  await redeem(code, { redirect_uri: 'https://evil.example/cb' });
  await redeem(code, { code_verifier: 'a'.repeat(43) });
  assert.equal((await read(alpha, String(body['access_token']))).status, 200);
});

test('redirect_uri is required at the token endpoint and is the same octet for octet', async () => {
  const code = await newCode();
  assert.deepEqual(outcome(await redeem(code, { redirect_uri: '' })), [400, 'invalid_request']);
  assert.deepEqual(outcome(await redeem(code, { redirect_uri: 'https://app.example.com/cb' })), INVALID_GRANT);
  assert.deepEqual(outcome(await redeem(code)), OK, 'none of the attempts used up the code');
});

test('a code requested without redirect_uri went to the only registered one', async () => {
  assert.deepEqual(outcome(await redeem(await newCode({ redirect_uri: undefined }))), OK);
});

test('a code with a challenge is redeemed by its verifier only', async () => {
  const verifier = 'v'.repeat(64);
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const code = await newCode({ code_challenge: challenge, code_challenge_method: 'S256' });
  assert.deepEqual(outcome(await redeem(code)), INVALID_GRANT);
  assert.deepEqual(outcome(await redeem(code, { code_verifier: 'w'.repeat(64) })), INVALID_GRANT);
  assert.deepEqual(outcome(await redeem(code, { code_verifier: challenge })), INVALID_GRANT);
  assert.deepEqual(outcome(await redeem(code, { code_verifier: verifier })), OK);
});

test('a verifier for a code without a challenge is rejected', async () => {
  const code = await newCode();
  assert.deepEqual(outcome(await redeem(code, { code_verifier: 'v'.repeat(43) })), INVALID_GRANT);
  assert.deepEqual(outcome(await redeem(code)), OK);
});

test('a refresh token is rejected for another client', async () => {
  const { body } = await redeem(await newCode());
  const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']) };
  assert.deepEqual(outcome(await token({ ...refresh, ...other })), INVALID_GRANT);
  assert.deepEqual(outcome(await token({ ...refresh, client_id: server.client.client_id })), [401, 'invalid_client']);
  assert.deepEqual(outcome(await token({ ...refresh, ...server.client })), OK);
});

test('a reused code is in the audit once, with the grant that it ended', async () => {
  const code = await newCode();
  await redeem(code);
  await server.sql`delete from audit`;
  await redeem(code);
  await redeem(code);
  const [row, ...others] = await server.sql`
    select a.action, a.user_id, c.client_id, a.store_id, a.address from audit a join client c on c.id = a.client`;
  const { adaId, client } = server;
  const entry = { action: 'code_reused', user_id: adaId, client_id: client.client_id, store_id: alpha };
  assert.deepEqual({ ...row }, { ...entry, address: '127.0.0.1' });
  assert.deepEqual(others, []);
});

test('the code of a user who is disabled meanwhile is rejected', async () => {
  const code = await newCode();
  await server.sql`update users set date_disabled = now() where id = ${server.adaId}`;
  assert.deepEqual(outcome(await redeem(code)), INVALID_GRANT);
  await server.sql`update users set date_disabled = null where id = ${server.adaId}`;
  assert.deepEqual(outcome(await redeem(code)), OK);
});

test('a legacy client may omit redirect_uri, which then means its only registered one', async () => {
  const { sql, client } = server;
  await sql`update client set is_legacy = true where client_id = ${client.client_id}`;
  assert.deepEqual(outcome(await redeem(await newCode(), { redirect_uri: '' })), OK);
  const code = await newCode();
  assert.deepEqual(outcome(await redeem(code, { redirect_uri: 'https://app.example.com/cb' })), INVALID_GRANT);
  const moved = ['https://app.example.com/moved'];
  await sql`update client set redirect_uris = ${moved} where client_id = ${client.client_id}`;
  assert.deepEqual(
    outcome(await redeem(code, { redirect_uri: '' })),
    INVALID_GRANT,
    'the code went to another address',
  );
  await sql`update client set redirect_uris = ${[REDIRECT]}, is_legacy = false where client_id = ${client.client_id}`;
});

test('a public client redeems a code with its verifier, and never one without a challenge', async () => {
  const { sql, client } = server;
  const verifier = 'v'.repeat(64);
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const withChallenge = await newCode({ code_challenge: challenge, code_challenge_method: 'S256' });
  const bare = await newCode();
  const { client_id } = client;
  await sql`update client set is_public = true, rotates_refresh_tokens = true where client_id = ${client_id}`;
  const form = { grant_type: 'authorization_code', redirect_uri: REDIRECT, client_id };
  assert.deepEqual(outcome(await token({ ...form, code: bare })), INVALID_GRANT);
  assert.deepEqual(outcome(await token({ ...form, code: withChallenge })), INVALID_GRANT);
  assert.deepEqual(outcome(await token({ ...form, code: withChallenge, code_verifier: verifier })), OK);
});
