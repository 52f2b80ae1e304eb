/** The whole authorization code flow of an app, as in RFC 6749 §4.1 and the contract. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashToken } from '#identity/oauth/oauth-tokens.ts';
import { createBrowser, ISSUER, readForm, REDIRECT, startAuthorizationServer } from '../security/oauth-server.ts';

type Server = Awaited<ReturnType<typeof startAuthorizationServer>>;
const server: Server = await startAuthorizationServer({ REFRESH_TOKEN_MAX_DAYS: '3650' });

const queryOf = (location: string | null): Record<string, string> =>
  Object.fromEntries(new URL(location ?? '').searchParams);

const basic = ({ client_id: id, client_secret: secret }: Server['client']) => ({
  Authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
});

test('a person signs in and grants an app access to a store, and the app reads that store and no other', async () => {
  const { asking, alpha, beta, redeem, read, ada } = server;
  const browser = createBrowser(server.origin);
  const sent = await browser.open(`/authorize?${new URLSearchParams(asking()).toString()}`);
  assert.equal(sent.status, 303);
  assert.match(sent.location ?? '', /^\/sign-in\?return_to=%2Fauthorize%3F/);

  const form = await browser.open(sent.location ?? '');
  const [, returnTo = ''] = /name="return_to" value="([^"]*)"/.exec(form.text) ?? [];
  const back = await browser.post('/sign-in', {
    email: ada.toUpperCase(),
    password: 'correct horse battery',
    return_to: returnTo.replaceAll('&amp;', '&'),
  });
  assert.equal(back.status, 303);

  const consent = await browser.open(back.location ?? '');
  assert.equal(consent.status, 200);
  for (const text of ['Mailer', 'app.example.com', ada, 'Alpha', 'Beta', 'Allow', 'Deny'])
    assert.ok(consent.text.includes(text), text);
  assert.ok(!consent.text.includes('Foreign'), 'a store of other people is not offered');
  assert.match(
    consent.headers.get('content-security-policy') ?? '',
    /form-action 'self' https:\/\/app\.example\.com https:;/,
  );

  const { action, nonce, stores } = readForm(consent);
  assert.deepEqual(
    stores.map(({ id }) => id),
    [alpha, beta],
  );
  const approved = await browser.post(action, { nonce, decision: 'allow', store: String(beta) });
  assert.equal(approved.status, 303);
  const { code = '', ...rest } = queryOf(approved.location);
  assert.deepEqual(rest, { keep: '1', state: 'a state', iss: ISSUER });
  assert.match(code, /^hal_ac_[A-Za-z0-9_-]{43}$/);

  const answer = await redeem(code);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('cache-control'), 'no-store');
  const { access_token: access, refresh_token: refresh, ...others } = answer.body;
  assert.deepEqual(others, { expires_in: 7_200, token_type: 'Bearer', scope: `store_full_access store_id_${beta}` });
  assert.match(String(access), /^hal_at_[A-Za-z0-9_-]{43}$/);
  assert.match(String(refresh), /^hal_rt_[A-Za-z0-9_-]{43}$/);
  assert.equal((await read(beta, String(access))).status, 200);
  assert.equal((await read(alpha, String(access))).status, 404);
});

test('credentials by Basic are accepted, with a client_id in the body too, and the exchange takes two statements', async () => {
  const { client, newCode, token, statements } = server;
  const form = { grant_type: 'authorization_code', redirect_uri: REDIRECT };
  const [first, second] = [await newCode(), await newCode()];
  statements.length = 0;
  assert.equal((await token({ ...form, code: first }, basic(client))).status, 200);
  assert.equal(statements.length, 2);
  assert.equal((await token({ ...form, code: second, client_id: client.client_id }, basic(client))).status, 200);
});

test('a refresh returns a new access token and the same refresh token, in one statement', async () => {
  const { client, newCode, redeem, token, read, alpha, statements } = server;
  const { body: first } = await redeem(await newCode());
  const form = { grant_type: 'refresh_token', refresh_token: String(first['refresh_token']), ...client };
  statements.length = 0;
  const { status, body } = await token(form);
  assert.equal(statements.length, 1);
  assert.equal(status, 200);
  assert.deepEqual({ ...body, access_token: '' }, { ...first, access_token: '' });
  assert.notEqual(body['access_token'], first['access_token']);
  assert.equal((await read(alpha, String(body['access_token']))).status, 200);
  assert.equal(
    (await read(alpha, String(first['access_token']))).status,
    200,
    'the earlier token stays valid until it expires',
  );
});

test('fifty parallel refreshes all succeed', async () => {
  const { client, newCode, redeem, token } = server;
  const { body } = await redeem(await newCode());
  const form = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...client };
  const answers = await Promise.all(Array.from({ length: 50 }, () => token(form)));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  assert.equal(new Set(answers.map((answer) => answer.body['access_token'])).size, 50);
});

test('the scope of a refresh may only repeat the granted one, and the store always stays', async () => {
  const { client, newCode, redeem, token, alpha, beta } = server;
  const { body } = await redeem(await newCode());
  const form = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...client };
  for (const scope of ['store_full_access', `store_full_access store_id_${alpha}`]) {
    const answer = await token({ ...form, scope });
    assert.equal(answer.status, 200, scope);
    assert.equal(answer.body['scope'], `store_full_access store_id_${alpha}`);
  }
  for (const scope of ['user_full_access', `store_full_access store_id_${beta}`, 'platform', 'a\u0001b']) {
    const answer = await token({ ...form, scope });
    assert.deepEqual([answer.status, answer.body['error']], [400, 'invalid_scope'], scope);
  }
});

test('a refresh token expires after an unused year, and each use starts the year again', async () => {
  const { client, newCode, redeem, token, wait } = server;
  const { body } = await redeem(await newCode());
  const form = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...client };
  const day = 86_400_000;
  wait(364 * day);
  assert.equal((await token(form)).status, 200);
  wait(364 * day);
  assert.equal((await token(form)).status, 200);
  wait(366 * day);
  assert.deepEqual((await token(form)).body['error'], 'invalid_grant');
  wait(-1_094 * day);
});

test('access to the account covers all stores of the user and shows no picker', async () => {
  const { asking, browser, redeem, read, alpha, beta, foreign } = server;
  const page = await browser.open(
    `/authorize?${new URLSearchParams(asking({ scope: 'user_full_access' })).toString()}`,
  );
  assert.deepEqual(readForm(page).stores, []);
  const { location } = await browser.consent(asking({ scope: 'user_full_access' }));
  const { body } = await redeem(queryOf(location)['code'] ?? '');
  assert.equal(body['scope'], 'user_full_access');
  const statuses = await Promise.all([alpha, beta, foreign].map((id) => read(id, String(body['access_token']))));
  assert.deepEqual(
    statuses.map(({ status }) => status),
    [200, 200, 404],
  );
});

test('a client may preselect a store in the picker, but not change anything else', async () => {
  const { asking, browser, beta, foreign } = server;
  const chosen = async (store: number) => {
    const query = new URLSearchParams(asking({ scope: `store_full_access store_id_${store}` })).toString();
    return readForm(await browser.open(`/authorize?${query}`)).stores.filter(({ isChosen }) => isChosen);
  };
  assert.deepEqual(await chosen(beta), [{ id: beta, isChosen: true }]);
  assert.deepEqual(await chosen(foreign), []);
});

test('a user without a store sees a message and can only deny', async () => {
  const browser = createBrowser(server.origin);
  await browser.signIn(server.bob);
  const page = await browser.open(`/authorize?${new URLSearchParams(server.asking()).toString()}`);
  assert.match(page.text, /You have no store/);
  assert.doesNotMatch(page.text, /value="allow"/);
  assert.match(page.text, /value="deny"/);
});

test('client_credentials return a token to the platform, in two statements, and no token to other clients', async () => {
  const { platform, client, token, read, foreign, statements } = server;
  statements.length = 0;
  const answer = await token({ grant_type: 'client_credentials', ...platform });
  assert.equal(statements.length, 2);
  const { access_token: access, ...rest } = answer.body;
  assert.deepEqual(rest, { expires_in: 7_200, token_type: 'Bearer', scope: 'platform' });
  assert.equal((await read(foreign, String(access))).status, 200);
  assert.equal((await token({ grant_type: 'client_credentials', scope: 'platform', ...platform })).status, 200);
  const [{ count } = { count: 0 }] = await server.sql<{ count: number }[]>`
    select count(*) from access_grant where scope = 'platform'`;
  assert.equal(count, 1, 'all its tokens belong to one permanent grant');
  const others = await token({ grant_type: 'client_credentials', ...client });
  assert.deepEqual([others.status, others.body['error']], [400, 'unauthorized_client']);
  const more = await token({ grant_type: 'client_credentials', scope: 'user_full_access', ...platform });
  assert.deepEqual([more.status, more.body['error']], [400, 'invalid_scope']);
});

test('during a rotation both client secrets work until their ends', async () => {
  const { sql, platform, token, wait } = server;
  await sql`
    insert into client_secret (hash, client, date_created, date_expires)
    select ${hashToken('the old secret')}, id, date_created, date_created + interval '1 day'
    from client where client_id = ${platform.client_id}`;
  const status = async (changes = {}) =>
    (await token({ grant_type: 'client_credentials', ...platform, ...changes })).status;
  const old = { client_secret: 'the old secret' };
  assert.deepEqual([await status(), await status(old)], [200, 200]);
  wait(86_400_000);
  assert.deepEqual([await status(), await status(old)], [200, 401]);
});
