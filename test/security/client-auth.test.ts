/** Client authentication at the token endpoint, its cost, and the throttle against guessing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { hashToken } from '#identity/oauth/oauth-tokens.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { REDIRECT, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer({ TRUSTED_PROXIES: '127.0.0.1' });
const { sql, client, other, platform, token, newCode, redeem, wait, statements } = server;

// The other client is public from here on; these tests need no registration for that.
await sql`delete from client_secret where client = (select id from client where client_id = ${other.client_id})`;
await sql`update client set is_public = true, rotates_refresh_tokens = true where client_id = ${other.client_id}`;
// The client had another secret before this one.
const ended = 'a secret that has been replaced';
await sql`
  insert into client_secret (hash, client, date_created, date_expires)
  select ${hashToken(ended)}, id, ${new Date(0)}, ${new Date(1)} from client where client_id = ${client.client_id}`;

const basicOf = (id: string, secret: string) => ({
  Authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
});
/** Authenticates, and then makes a request that fails for another reason. */
const probe = { grant_type: 'refresh_token' };
const AUTHENTICATED = [400, 'invalid_request'];
const REFUSED = [401, 'invalid_client'];
const SLOWED = [429, 'invalid_client'];
type Answer = Awaited<ReturnType<typeof token>>;
const outcome = ({ status, body }: Answer) => [status, body['error']];
const from = (address: string) => ({ 'X-Forwarded-For': address });

const publicId = { client_id: other.client_id };
const confidentialId = { client_id: client.client_id };

// oxfmt-ignore
const rows: [what: string, form: Record<string, string>, headers: Record<string, string>, expected: unknown[]][] = [
  ['a public client by its client_id',             publicId,                                {},                                    AUTHENTICATED],
  ['a public client by Basic without a secret',    {},                                      basicOf(other.client_id, ''),          AUTHENTICATED],
  ['a public client with a secret',                { ...publicId, client_secret: 'x' },     {},                                    REFUSED],
  ['a public client with its former secret',       { ...other },                            {},                                    REFUSED],
  ['a public client with an empty secret',         { ...publicId, client_secret: '' },      {},                                    AUTHENTICATED],
  ['a confidential client in the body',            { ...client },                           {},                                    AUTHENTICATED],
  ['a confidential client by Basic',               {},                                      basicOf(client.client_id, client.client_secret), AUTHENTICATED],
  ['a confidential client by Basic, form-encoded', {},                                      basicOf(client.client_id.replace(/^./, (first) => `%${first.charCodeAt(0).toString(16)}`), client.client_secret), AUTHENTICATED],
  ['Basic with the same client_id in the body',   confidentialId,                          basicOf(client.client_id, client.client_secret), AUTHENTICATED],
  ['a confidential client without its secret',     confidentialId,                          {},                                    REFUSED],
  ['a confidential client by Basic without it',    {},                                      basicOf(client.client_id, ''),         REFUSED],
  ['a public client by an assertion',              { ...publicId, client_assertion: 'a.b.c' }, {},                                 REFUSED],
  ['a confidential client by an assertion',        { ...confidentialId, client_assertion: 'a.b.c' }, {},                           REFUSED],
  ['a client by an assertion alone',               { client_assertion: 'a.b.c' },           {},                                    REFUSED],
  ['an unknown client without a secret',           { client_id: 'unknown' },                {},                                    REFUSED],
];
for (const [what, form, headers, expected] of rows) {
  test(`${what} is ${expected === AUTHENTICATED ? 'taken' : 'refused'}`, async () => {
    assert.deepEqual(outcome(await token({ ...probe, ...form }, headers)), expected);
  });
}

test('the right client costs one statement, also during guesses', async () => {
  statements.length = 0;
  await token({ ...probe, ...client });
  assert.equal(statements.length, 1);
});

test('an unknown client and a wrong secret cost the same statements and get the same answer', async () => {
  const costOf = async (form: Record<string, string>) => {
    statements.length = 0;
    const { status, body } = await token({ ...probe, ...form }, from('192.0.2.1'));
    return { status, body, statements: [...statements] };
  };
  const wrong = await costOf({ ...client, client_secret: 'x' });
  assert.equal(wrong.statements.length, 3);
  assert.deepEqual(await costOf({ client_id: 'unknown', client_secret: 'x' }), wrong);
  assert.deepEqual(await costOf({ ...publicId, client_secret: 'x' }), wrong);
});

const guess = (address: string, form: Record<string, string> = { ...client, client_secret: 'x' }) =>
  token({ ...probe, ...form }, from(address));

/** Guesses until the answer is a 429; returns the number of 401 before. */
async function exhaust(address: string): Promise<number> {
  for (let guesses = 0; guesses < 100; guesses += 1) {
    const [status] = outcome(await guess(address));
    if (status === 429) return guesses;
  }
  throw new Error('No guess was throttled');
}

test('after twenty wrong secrets the client gets a 429, and may continue after that time', async () => {
  assert.equal(await exhaust('192.0.2.2'), 20);
  const slowed = await guess('192.0.2.2');
  assert.deepEqual(outcome(slowed), SLOWED);
  const seconds = Number(slowed.headers.get('retry-after'));
  assert.ok(seconds > 0 && seconds <= 30, `${seconds} s`);
  wait(seconds * 1_000);
  assert.deepEqual(outcome(await guess('192.0.2.2')), REFUSED);
});

test('the right secret works from an address that has guessed too often', async () => {
  await exhaust('192.0.2.3');
  assert.deepEqual(outcome(await token({ ...probe, ...client }, from('192.0.2.3'))), AUTHENTICATED);
  assert.deepEqual(outcome(await guess('192.0.2.3')), SLOWED, 'and does not reset the throttle');
});

test('the throttle counts per client and address: another address and another client are not slowed', async () => {
  await exhaust('192.0.2.4');
  assert.deepEqual(outcome(await guess('192.0.2.5')), REFUSED);
  assert.deepEqual(outcome(await guess('192.0.2.4', { ...platform, client_secret: 'x' })), REFUSED);
});

test('all addresses of an IPv6 network count as one', async () => {
  await exhaust('2001:db8:1:2::1');
  assert.deepEqual(outcome(await guess('2001:db8:1:2:ffff::9')), SLOWED);
});

test('guesses at unknown clients are slowed in the same way', async () => {
  const unknown = { client_id: 'unknown', client_secret: 'x' };
  for (let guesses = 0; guesses < 20; guesses += 1) await guess('192.0.2.6', unknown);
  assert.deepEqual((await guess('192.0.2.6', unknown)).body, (await guess('192.0.2.2')).body);
});

test('the throttle is shared with other processes, also with later ones', async () => {
  await exhaust('192.0.2.7');
  const second = await server.startSecond();
  const response = await fetch(`${second}/token`, {
    method: 'POST',
    headers: from('192.0.2.7'),
    body: new URLSearchParams({ ...probe, ...client, client_secret: 'x' }),
  });
  assert.equal(response.status, 429);
});

test('a forwarded address is ignored without a trusted proxy', async () => {
  const plain = await startAuthorizationServer();
  const send = (address: string) =>
    plain.token({ ...probe, ...plain.client, client_secret: 'x' }, { 'X-Forwarded-For': address });
  for (let guesses = 0; guesses < 20; guesses += 1) await send(`198.51.100.${guesses}`);
  assert.deepEqual(outcome(await send('198.51.100.99')), SLOWED);
});

// oxfmt-ignore
const impostors: [who: string, credentials: Record<string, string>][] = [
  ['a caller without the secret',    confidentialId                                         ],
  ['a caller with a wrong secret',   { ...client, client_secret: 'x' }                      ],
  ["another client's secret",        { ...client, client_secret: platform.client_secret }   ],
  ['a caller with an old secret',    { ...client, client_secret: ended }                    ],
  ['a public client with a secret',  { ...publicId, client_secret: client.client_secret }   ],
];
for (const [who, credentials] of impostors) {
  test(`${who} gets no token for a valid code or refresh token, and uses neither up`, async () => {
    await sql`update client set rotates_refresh_tokens = true where client_id = ${client.client_id}`;
    const code = await newCode();
    const { body } = await redeem(await newCode());
    const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']) };
    const exchange = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT };
    const stored = () => sql`
      select (select count(*) from access_token) as access, (select count(*) from refresh_token) as refresh`;
    const before = await stored();
    for (const form of [refresh, exchange])
      assert.deepEqual(outcome(await token({ ...form, ...credentials })), REFUSED);
    assert.deepEqual([...(await stored())], [...before]);
    wait(11_000);
    for (const form of [refresh, exchange]) assert.equal((await token({ ...form, ...client })).status, 200);
  });
}

test('a client that is deleted during its request gets an error, and no token is left', async () => {
  const { asked } = await transaction(sql, async (tx) => {
    await tx`delete from client where client_id = ${platform.client_id}`;
    const answer = token({ grant_type: 'client_credentials', ...platform });
    await until(
      () => waitingForLocks(sql),
      (count) => count > 0,
    );
    return { asked: answer };
  });
  const { status, body } = await asked;
  assert.deepEqual([status, body['error']], REFUSED);
});
