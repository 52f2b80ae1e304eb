/**
 * Everything that has a secret happens once, successfully and with errors; then every row of every table and every line of the log
 * is searched for every secret used.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { resealAll } from '#cli/rekey.ts';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { captureLogs } from './at-rest/capture.ts';
import { dump, findSecrets } from './at-rest/search.ts';
import { createBrowser, PASSWORD, readForm, REDIRECT, startAuthorizationServer } from './oauth-server.ts';
import { newApp, REGISTERED, saveApp, submit, credentialsIn } from './page-forms.ts';
import { bothOf, storesOf } from '../setup/suite-map.ts';

const NEW_KEY = randomBytes(32);
/** The server has both keys and seals with the first. */
const SECRET_KEYS = [randomBytes(32), NEW_KEY] as const;
const logs = captureLogs();
const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const receiver = await startReceiver();
const server = await startAuthorizationServer(
  { SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com', OUTBOUND_ALLOW: '127.0.0.0/8' },
  { log: logs.log, roles: ['serve', 'deliver'], secretKeys: SECRET_KEYS },
);
const { sql, origin, browser, client, other, platform, bob, alpha, token, newCode, redeem, read, wait } = server;

const secrets = new Map<string, string>();
/** Records a secret under its name and returns it. */
function keep(name: string, value: unknown): string {
  assert.ok(typeof value === 'string' && value.length >= 16, `There is no secret: ${name}`);
  secrets.set(name, value);
  return value;
}
keep('the password', PASSWORD);
for (const [at, key] of SECRET_KEYS.entries()) keep(`secret key ${at}`, key.toString('base64url'));
for (const { client_id, client_secret } of [client, other, platform]) keep(`the secret of ${client_id}`, client_secret);

function keepCookies(name: string, from: typeof browser): void {
  keep(`${name}: session`, from.jar.get('halcyon'));
  const device = [...from.jar].find(([called]) => called.startsWith('halcyon-device-'));
  keep(`${name}: device`, device?.[1]);
}
const bearer = (value: string) => ({ Authorization: `Bearer ${value}` });
const API = { 'SERVICE-API-VERSION': '1' };
const post = (path: string, form: Record<string, string>, headers = {}) =>
  fetch(origin + path, { method: 'POST', body: new URLSearchParams(form), headers });
async function postJson(path: string, body: unknown, headers: Record<string, string>) {
  const all = { ...API, 'Content-Type': 'application/json', ...headers };
  const response = await fetch(origin + path, { method: 'POST', headers: all, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
const keepPair = (name: string, { body }: Awaited<ReturnType<typeof token>>) => ({
  access: keep(`${name}: access token`, body['access_token']),
  refresh: keep(`${name}: refresh token`, body['refresh_token']),
});
const refresh = (refreshToken: string, by: Record<string, string>) =>
  token({ grant_type: 'refresh_token', refresh_token: refreshToken, ...by });
const platformToken = async (name: string): Promise<string> =>
  keep(name, (await token({ grant_type: 'client_credentials', ...platform })).body['access_token']);

async function passwords(): Promise<void> {
  keepCookies('the first browser', browser);
  const person = createBrowser(origin);
  const wrong = keep('a wrong password', 'a wrong password, typed in');
  await person.signIn(bob, wrong);
  await person.signIn(keep('a password in the field of the address', 'my password, by mistake'), PASSWORD);
  await person.post('/sign-in', { email: PASSWORD, password: bob });
  await person.signIn(bob);
  keepCookies('the second browser', person);
  await person.signIn(bob);
  keepCookies('the same one, signed in again', person);

  const { nonce } = readForm(await person.open('/account/password'));
  keep('the nonce of a form', nonce);
  const changed = keep('the changed password', 'another battery, stapled');
  await person.post('/account/password', { nonce, current: wrong, password: changed });
  const { status } = await person.post('/account/password', { nonce, current: PASSWORD, password: changed });
  assert.equal(status, 303);
  keepCookies('after the change', person);

  for (const name of ['the unused link', 'the used link']) {
    await person.post('/forgot-password', { email: bob });
    keep(name, /token=(hal_pr_[A-Za-z0-9_-]{43})/.exec((await mails.next()).text)?.[1]);
  }
  const link = secrets.get('the used link') ?? '';
  const form = { token: link, password: keep('the new password', 'a third horse, corrected') };
  await person.open(`/reset-password?token=${link}`);
  assert.equal((await person.post('/reset-password', form)).status, 303);
  assert.equal((await person.post('/reset-password', form)).status, 410);
  keepCookies('after the link', person);
  await person.post('/sign-out', {});
}

async function clients(): Promise<void> {
  const { clientId, secret, path } = await newApp(browser);
  keep('the secret created on the pages', secret);
  await saveApp(browser, clientId, { rotates_refresh_tokens: '1' });
  const rotated = credentialsIn(await submit(browser, path, `${path}/secret`)).secret;
  const own = { client_id: clientId, client_secret: keep('the second secret', rotated) };
  const code = await newCode({ client_id: clientId, redirect_uri: REGISTERED });
  keep('the code of the rotating client', code);
  const first = keepPair('rotating, first', await redeem(code, { ...own, redirect_uri: REGISTERED }));
  const second = keepPair('rotating, second', await refresh(first.refresh, own));
  keepPair('rotating, retried', await refresh(first.refresh, own));
  keepPair('rotating, third', await refresh(second.refresh, own));
  assert.equal((await refresh(first.refresh, own)).body['error'], 'invalid_grant');
  assert.equal((await refresh(second.refresh, own)).body['error'], 'invalid_grant');

  const invitation = keep('the registration token', await createRegistrationToken(sql, { days: 7, now: server.now() }));
  const metadata = { redirect_uris: [REGISTERED], client_name: 'Registered' };
  const registered = await postJson('/register', metadata, bearer(invitation));
  keep('the registered secret', registered.body['client_secret']);
  await postJson('/register', { ...metadata, redirect_uris: invitation }, bearer(invitation));
  const trusted = bearer(await platformToken('the token of a registration'));
  const details = { name: 'Made by the platform', redirect_uris: [REGISTERED] };
  keep('the secret created by the platform', (await postJson('/clients', details, trusted)).body['client_secret']);
  const user = { email: 'made@example.com', password: keep('the password of a created user', 'a password of theirs') };
  assert.equal((await postJson('/users', user, trusted)).status, 201);
  await postJson('/users', { email: user.password, password: [user.password] }, trusted);
}

async function codesAndTokens(): Promise<string> {
  keep('the unused code', await newCode());
  const verifier = keep('the verifier', `${'verifier-'.repeat(5)}~`);
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const codeWithChallenge = keep(
    'the code with a challenge',
    await newCode({ code_challenge: challenge, code_challenge_method: 'S256' }),
  );
  await redeem(codeWithChallenge, { code_verifier: keep('a wrong verifier', `${'reifiver-'.repeat(5)}~`) });
  keepPair('with a challenge', await redeem(codeWithChallenge, { code_verifier: verifier }));

  const reused = keep('the reused code', await newCode());
  keepPair('of the reused code', await redeem(reused));
  assert.equal((await redeem(reused)).status, 400);
  await redeem(reused, other);
  await redeem(reused, { client_secret: keep('a wrong secret', 'hal_cs_this-is-not-the-secret-of-this-client') });

  const stable = keepPair('stable', await redeem(keep('the used code', await newCode())));
  keepPair('refreshed', await refresh(stable.refresh, client));
  await refresh(stable.access, client);
  await refresh(stable.refresh, other);
  const basic = Buffer.from(`${client.client_id}:${client.client_secret}`).toString('base64');
  await post('/token', { grant_type: 'client_credentials' }, { Authorization: `Basic ${basic}` });
  await post('/introspect', { token: stable.access, ...client });
  await post('/introspect', { token: stable.access }, bearer(await platformToken('the token that introspects')));
  await post('/introspect', { token: stable.refresh }, bearer(stable.access));
  const revoked = keepPair('revoked', await redeem(keep('another code', await newCode())));
  await post('/revoke', { token: revoked.access, ...client });
  await post('/revoke', { token: revoked.refresh, ...client });
  await post('/revoke', { token: client.client_secret, ...client });
  assert.equal((await read(alpha, stable.access)).status, 200);
  return stable.access;
}

/** The key of a running rotation is in the row and in the stored answer; both are sealed again on the way. */
async function rotation(hook: object, access: string): Promise<void> {
  const ask = (path: string, body: object, key: string) =>
    postJson(path, body, { ...bearer(access), 'Idempotency-Key': key });
  const plain = keep('the key of the rotated webhook', 'a phrase that a person chose, and long enough');
  const made = await ask(`/stores/${alpha}/webhooks`, { ...hook, url: undefined, encryption_key: plain }, 'made');
  const at = `/webhooks/${String(made.body['id'])}/rotate_key`;
  const chosen = keep('the next key', 'another phrase that a person chose, for later');
  assert.equal((await ask(at, { encryption_key: chosen }, 'chosen')).status, 200);
  assert.equal((await ask(at, { finish: '1' }, 'finished')).status, 200);
  keep('the generated next key', (await ask(at, {}, 'made up')).body['next_encryption_key']);
  const rekeyed = await resealAll(storesOf(sql), [NEW_KEY, SECRET_KEYS[0]], {
    pause: async () => {},
    isStopped: () => false,
    onProgress: () => {},
  });
  assert.deepEqual(Object.fromEntries(rekeyed.counts), { webhooks: 2, 'versions of webhooks': 3, answers: 4 });
}

async function delivery(access: string): Promise<void> {
  const key = keep('the key of the webhook', `whsec_${Buffer.from('a key that only both know of').toString('base64')}`);
  const inQuery = keep('the token in the url', 'a token of the endpoint, in its url'.replaceAll(/[ ,]+/g, '-'));
  const inHeader = keep('the token in a header', 'a token of the endpoint, in a header');
  const hook = {
    name: 'Hook',
    format: 'json',
    url: `${receiver.url}/hook?token=${inQuery}`,
    encryption_key: key,
    headers: { 'X-Token': inHeader },
    events: ['transaction/created'],
  };
  assert.equal((await postJson(`/stores/${alpha}/webhooks`, hook, bearer(access))).status, 201);
  await postJson(`/stores/${alpha}/webhooks`, { ...hook, format: key, [key]: key, events: [key] }, bearer(access));
  await rotation(hook, access);
  const trusted = bearer(await platformToken('the token that publishes'));
  const event = { event: 'transaction/created', resource: { id: 1, total: 5 } };
  assert.equal((await postJson(`/stores/${alpha}/events`, event, trusted)).status, 201);
  await receiver.until(1);
  const headers = receiver.got[0]?.headers ?? {};
  assert.deepEqual([receiver.got[0]?.path, headers['x-token']], [`/hook?token=${inQuery}`, inHeader]);
  keep('the signature', headers['service-webhook-signature']);
  keep('the standard signature', String(headers['webhook-signature']).slice('v1,'.length));
  await until(
    () => sql`select from attempt_log`,
    (rows) => rows.length > 0,
  );
}

/** Sends requests that fail with a secret in them; returns the statuses of the answers. */
async function misuse(access: string): Promise<number[]> {
  const [code, link] = [secrets.get('the unused code') ?? '', secrets.get('the unused link') ?? ''];
  const get = async (path: string, headers = {}) =>
    (await fetch(origin + path, { headers, redirect: 'manual' })).status;
  const statuses = [
    await get(`/stores?access_token=${access}`, API),
    await get(`/stores/${access}`, { ...API, ...bearer(access) }),
    await get(`/stores/${alpha}`, { ...API, ...bearer(code) }),
    await get(`/stores/${alpha}`, { ...API, ...bearer(client.client_secret) }),
    await get(`/stores/${alpha}/events/${access}`, { ...API, ...bearer(access) }),
    await get(`/${access}`),
    await get(`/%zz/${access}`),
    await get(`/authorize?client_id=${client.client_secret}`),
    await get(`/authorize?client_id=${client.client_id}&redirect_uri=${REDIRECT}/${code}`),
    await get(`/reset-password?token=${link}x`),
    (await post('/token', { grant_type: access, ...client })).status,
    (await post(`/token?client_secret=${client.client_secret}`, { client_id: client.client_id, code })).status,
    (await post('/token', { code: 'x'.repeat(2_000_000), ...client })).status,
    (await post('/sign-in', { email: bob, password: PASSWORD }, { 'Sec-Fetch-Site': 'cross-site' })).status,
    (await postJson(`/stores/${alpha}/events`, { event: access, resource: PASSWORD }, bearer(access))).status,
    (await postJson('/users', { [access]: PASSWORD }, bearer(access))).status,
  ];
  wait(7_201_000);
  return [...statuses, await get(`/stores/${alpha}`, { ...API, ...bearer(access) })];
}

test('no secret is in the database, in the log or in the output of the process', async () => {
  await passwords();
  await clients();
  const access = await codesAndTokens();
  await delivery(access);
  const statuses = await misuse(access);
  for (const expected of [400, 401, 403, 404, 413]) assert.ok(statuses.includes(expected), String(expected));
  assert.ok(
    statuses.every((status) => status >= 400 && status < 500),
    String(statuses),
  );

  const [tables, said] = [(await Promise.all(bothOf(sql).map(dump))).join('\n'), logs.text()];
  for (const [what, text] of Object.entries({ tables, said })) assert.ok(text.length > 1_000, what);
  const seen = new Map([
    ['a domain', 'alpha.example.com'],
    ['the id of a client', client.client_id],
    ['a redirect', REDIRECT],
  ]);
  assert.equal(findSecrets(tables, seen).length, seen.size, 'the search finds secrets in the tables');
  const message = new Map([['a message', 'The access token provided has expired']]);
  assert.equal(findSecrets(said, message).length, 1, 'the search finds secrets in the log');
  assert.ok(secrets.size > 50, String(secrets.size));
  assert.deepEqual(findSecrets(tables, secrets), []);
  assert.deepEqual(findSecrets(said, secrets), []);
});

test('the search finds half of a secret in every spelling', () => {
  const secret = 'hal_at_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG';
  const known = new Map([['it', secret]]);
  const random = secret.slice('hal_at_'.length);
  const half = random.slice(20);
  const spellings = [half, Buffer.from(half).toString('hex'), Buffer.from(half).toString('base64')];
  for (const before of ['', 'a', 'ab']) spellings.push(Buffer.from(`${before}:${random}`).toString('base64url'));
  spellings.push(Buffer.from(random, 'base64url').toString('hex'));
  for (const spelling of spellings) assert.equal(findSecrets(`x ${spelling} y`, known).length, 1, spelling);
  assert.deepEqual(findSecrets(random.slice(0, 15), known), []);
});
