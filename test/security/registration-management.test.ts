/** GET, PUT and DELETE of a registration by its client (RFC 7592). */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { transaction } from '#db/pool.ts';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { verifyClient } from '#identity/oauth/clients/client-change.ts';
import { amountOf } from '../setup/amount.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';
import { anyText } from '../setup/any-text.ts';

const server = await startAuthorizationServer();
const { sql, origin, asking, redeem, read, browser, alpha } = server;
const CALLBACK = 'https://new.example.com/cb';
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const invitation = await createRegistrationToken(sql, { days: 7, now: server.now() });

type Answer = { status: number; headers: Headers; body: Record<string, unknown> };

async function send(method: string, path: string, token: string, body?: unknown): Promise<Answer> {
  const response = await fetch(origin + path, {
    method,
    headers: {
      ...(token === '' ? {} : { Authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  return { status: response.status, headers: response.headers, body: json };
}

type Registered = { id: string; secret: string; path: string; token: string };

async function register(more: Record<string, unknown> = {}): Promise<Registered> {
  const metadata = { client_name: 'Managed', redirect_uris: [CALLBACK], ...more };
  const { status, body } = await send('POST', '/register', invitation, metadata);
  assert.equal(status, 201, JSON.stringify(body));
  const id = String(body['client_id']);
  assert.equal(body['registration_client_uri'], `${ISSUER}/register/${id}`);
  const token = String(body['registration_access_token']);
  return { id, secret: String(body['client_secret']), path: `/register/${id}`, token };
}

const replacement = (id: string, more: Record<string, unknown> = {}) => ({
  client_id: id,
  client_name: 'Renamed',
  redirect_uris: [CALLBACK, `${CALLBACK}2`],
  ...more,
});

/** Gives the client access to the first store, and returns its access token. */
async function connect({ id, secret }: Registered): Promise<string> {
  const { location } = await browser.consent(asking({ client_id: id, redirect_uri: CALLBACK }));
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  const { body } = await redeem(code, { client_id: id, client_secret: secret, redirect_uri: CALLBACK });
  return String(body['access_token']);
}

test('a client reads its registration, without the secret', async () => {
  const { id, path, token, secret } = await register();
  const { status, headers, body } = await send('GET', path, token);
  assert.equal(status, 200);
  assert.equal(headers.get('cache-control'), 'no-store');
  assert.deepEqual(body, {
    client_id: id,
    client_id_issued_at: server.now().getTime() / 1_000,
    registration_client_uri: `${ISSUER}${path}`,
    registration_access_token: token,
    client_name: 'Managed',
    redirect_uris: [CALLBACK],
    token_endpoint_auth_method: 'client_secret_basic',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    scope: 'store_full_access user_full_access',
    requires_pkce: false,
  });
  const [row] = await sql<{ text: string }[]>`select c::text as text from client c where client_id = ${id}`;
  assert.ok(row !== undefined && !row.text.includes(token) && !row.text.includes(secret));
});

test('PUT replaces the metadata and the token, and records the change', async () => {
  const { id, path, token } = await register();
  const grants = ['authorization_code', DEVICE_GRANT];
  const { status, body } = await send('PUT', path, token, replacement(id, { grant_types: grants }));
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(body['redirect_uris'], [CALLBACK, `${CALLBACK}2`]);
  assert.deepEqual(body['grant_types'], ['authorization_code', 'refresh_token', DEVICE_GRANT]);
  const next = String(body['registration_access_token']);
  assert.notEqual(next, token);
  assert.equal((await send('GET', path, token)).status, 401, 'the replaced token has ended');
  assert.equal((await send('GET', path, next)).body['client_name'], 'Renamed');
  const [entry] = await sql<{ action: string; detail: Record<string, unknown> }[]>`
    select action, detail from audit order by id desc limit 1`;
  assert.equal(entry?.action, 'client_changed');
  assert.deepEqual([entry.detail['itself'], entry.detail['client_id']], [id, id]);
  assert.deepEqual(entry.detail['changed'], ['name', 'redirect_uris', 'allows_device_grant']);
});

test('a client may require PKCE of itself, and a replacement without the member keeps it', async () => {
  const { id, path, token } = await register({ requires_pkce: true });
  const { body: kept } = await send('PUT', path, token, replacement(id, {}));
  assert.equal(kept['requires_pkce'], true);
  const query = new URLSearchParams(asking({ client_id: id, redirect_uri: CALLBACK }));
  for (const name of ['code_challenge', 'code_challenge_method']) query.delete(name);
  const refused = await browser.open(`/authorize?${query.toString()}`);
  assert.match(new URL(refused.location ?? '').searchParams.get('error_description') ?? '', /code_challenge/);
  const next = String(kept['registration_access_token']);
  const { body: ended } = await send('PUT', path, next, replacement(id, { requires_pkce: false }));
  assert.equal(ended['requires_pkce'], false);
  assert.equal((await browser.open(`/authorize?${query.toString()}`)).status, 200);
});

test('a verified client that changes its name is unverified again', async () => {
  const { id, path, token } = await register();
  await verifyClient(sql, id, { userId: null, origin: null, now: server.now() });
  const isVerified = async () =>
    (await sql<{ is: boolean }[]>`select is_verified as is from client where client_id = ${id}`)[0]?.is;
  const same = await send('PUT', path, token, { client_id: id, client_name: 'Managed', redirect_uris: [CALLBACK] });
  assert.deepEqual([same.status, await isVerified()], [200, true]);
  await send('PUT', path, String(same.body['registration_access_token']), replacement(id));
  assert.equal(await isVerified(), false);
});

test('a replacement with a fault changes nothing, and reports every fault', async () => {
  const one = await register();
  const rows: [Record<string, unknown>, RegExp][] = [
    [replacement('another'), /client_id must be/],
    [{ redirect_uris: [CALLBACK] }, /client_id must be/],
    [replacement(one.id, { token_endpoint_auth_method: 'none' }), /token_endpoint_auth_method must stay/],
    [replacement(one.id, { registration_access_token: one.token }), /registration_access_token must not/],
    [replacement(one.id, { client_secret: 'x' }), /client_secret must be/],
    [replacement(one.id, { redirect_uris: ['x'], client_id_issued_at: 1 }), /redirect_uris.*client_id_issued_at must/],
  ];
  for (const [body, text] of rows) {
    const answer = await send('PUT', one.path, one.token, body);
    assert.equal(answer.status, 400);
    assert.match(String(answer.body['error_description']), text);
  }
  const after = await send('GET', one.path, one.token);
  assert.deepEqual([after.status, after.body['client_name']], [200, 'Managed']);
  const right = await send('PUT', one.path, one.token, replacement(one.id, { client_secret: one.secret }));
  assert.equal(right.status, 200);
});

test('DELETE ends the client, its grants and its tokens', async () => {
  const one = await register();
  const accessToken = await connect(one);
  assert.equal((await read(alpha, accessToken)).status, 200);
  const gone = await send('DELETE', one.path, one.token);
  assert.deepEqual([gone.status, gone.headers.get('content-length')], [204, null]);
  assert.equal((await read(alpha, accessToken)).status, 401);
  assert.equal((await send('GET', one.path, one.token)).status, 401);
  assert.equal((await browser.open(`/authorize?client_id=${one.id}`)).status, 400);
  const reader = String((await redeem(await server.newCode())).body['access_token']);
  const changes = await fetch(`${origin}/stores/${alpha}/changelogs?order=id%20desc`, {
    headers: { 'SERVICE-API-VERSION': '1', Accept: 'application/json', Authorization: `Bearer ${reader}` },
  });
  const { _embedded } = (await changes.json()) as { _embedded: Record<string, Record<string, unknown>[]> };
  const revoked = _embedded['svc:changelogs']?.find(({ action }) => action === 'revoked');
  assert.deepEqual([revoked?.['resource'], revoked?.['actor'], revoked?.['client']], ['grant', 'app', one.id]);
});

test('every other token gets the same 401', async () => {
  const [one, other] = [await register(), await register()];
  const { body } = await send('POST', '/register', invitation, { redirect_uris: [CALLBACK] });
  assert.ok(body['client_id'] !== undefined);
  const answers: Record<string, unknown>[] = [];
  for (const token of ['x', other.token, invitation, one.secret, `hal_mt_${'a'.repeat(43)}`])
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await send(method, one.path, token, method === 'PUT' ? replacement(one.id) : undefined);
      assert.equal(answer.status, 401);
      assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer .*error="invalid_token"/);
      answers.push(answer.body);
    }
  for (const path of ['/register/unknown', '/register/%00', `/register/${server.client.client_id}`])
    answers.push((await send('GET', path, one.token)).body);
  for (const answer of answers) assert.deepEqual(answer, answers[0]);
});

test('of two replacements at once with one token one is accepted', async () => {
  const { id, path, token } = await register();
  const { answers } = await transaction(sql, async (tx) => {
    await tx`select from client where client_id = ${id} for update`;
    const both = Promise.all(
      ['One', 'Two'].map((name) => send('PUT', path, token, replacement(id, { client_name: name }))),
    );
    await until(
      () => waitingForLocks(sql),
      (count) => count >= 2,
    );
    return { answers: both };
  });
  const [first, second] = (await answers).toSorted((a, b) => a.status - b.status);
  assert.deepEqual([first?.status, second?.status], [200, 401]);
  const [row] = await sql<{ hash: Buffer }[]>`select management_token_hash as hash from client where client_id = ${id}`;
  const kept = createHash('sha256').update(String(first?.body['registration_access_token'])).digest();
  assert.ok(row?.hash.equals(kept), 'the token of the accepted replacement is valid');
});

test('no body makes a replacement fail', async () => {
  const { id, path, token } = await register();
  const value = fc.oneof(
    anyText({ maxLength: 40 }),
    fc.array(fc.string(), { maxLength: 3 }),
    fc.integer(),
    fc.constant(null),
  );
  const name = fc.constantFrom(
    'client_id',
    'client_name',
    'client_secret',
    'redirect_uris',
    'grant_types',
    'scope',
    'x',
  );
  const bodies = fc.oneof(
    fc.dictionary(name, value).map((given) => JSON.stringify(given)),
    fc.dictionary(name, value).map((given) => JSON.stringify({ ...replacement(id), ...given, redirect_uris: ['x'] })),
    anyText({ maxLength: 40 }),
  );
  await fc.assert(
    fc.asyncProperty(bodies, async (body) => {
      const { status, body: answer } = await send('PUT', path, token, body);
      assert.equal(status, 400, body);
      assert.match(String(answer['error_description']), /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
    }),
    { numRuns: amountOf('any-form', { all: 150, part: 40 }) },
  );
});
