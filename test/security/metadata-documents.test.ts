/** Attacks by way of a client_id that is the address of a metadata document. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { isClientUrl } from '#identity/oauth/protocol-requests.ts';
import { DOCUMENT_REDIRECT, startDocumentHost } from '../setup/document-host.ts';
import { passwords } from '../setup/passwords.ts';
import { until } from '../setup/until.ts';
import { suspending } from './operators.ts';
import { createBrowser, PASSWORD, readForm, startAuthorizationServer } from './oauth-server.ts';
import * as fc from 'fast-check';

const host = await startDocumentHost();
const server = await startAuthorizationServer({ OUTBOUND_ALLOW: '127.0.0.0/8' });
const { sql, browser, token } = server;
const VERIFIER = 'v'.repeat(43);
const pkce = {
  code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
  code_challenge_method: 'S256',
};
const asking = (clientId: string, redirectUri = DOCUMENT_REDIRECT) =>
  server.asking({ client_id: clientId, redirect_uri: redirectUri, ...pkce });
const pathOf = (clientId: string, redirectUri?: string) =>
  `/authorize?${new URLSearchParams(asking(clientId, redirectUri)).toString()}`;

/** Each test has a person of its own: what a person causes is limited. */
let people = 0;
async function newPerson(origin = server.origin, into = sql) {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(into, passwords, { email, password: PASSWORD, now: server.now() });
  const of = createBrowser(origin);
  await of.signIn(email);
  return { of, id };
}

/** Opens the page as a new person; it is refused without a redirect, and nothing is stored. Returns the text. */
async function refusedPage(clientId: string, redirectUri?: string): Promise<string> {
  const { of } = await newPerson();
  const { status, location, text } = await of.open(pathOf(clientId, redirectUri));
  assert.deepEqual([status, location], [400, null], text);
  const rows = await sql`select from client where client_id = ${clientId}`;
  assert.equal(rows.length, 0);
  return text;
}

const port = new URL(host.publish('/x')).port;
const at = `localhost:${port}`;
const lookAlikes = [
  `https://${at}`,
  `http://${at}/x`,
  `HTTPS://${at}/x`,
  `https://LOCALHOST:${port}/x`,
  `https://localhost:443/x`,
  `https://localhost:/x`,
  `https://localhost.:${port}/x`,
  `https://user@${at}/x`,
  `https://user:secret@${at}/x`,
  `https://@${at}/x`,
  `https://${at}/x#`,
  `https://${at}/x#y`,
  `https://${at}/x?`,
  `https://${at}/x?y=1`,
  `https://${at}/./x`,
  `https://${at}/a/../x`,
  `https://${at}/a/%2e%2E/x`,
  `https://${at}/.`,
  `https://${at}/..`,
  `https://${at}\\x`,
  `https:\\\\${at}/x`,
  `https:${at}/x`,
  `https:/${at}/x`,
  `https:///${at}/x`,
  ` https://${at}/x`,
  `https://${at}/x `,
  `https://${at}/\tx`,
  `https://${at}/x\n`,
  `https://${at}/\u0000`,
  `https://${at}/*`,
  `https://${at}/ä`,
  'https://аgent.example/x',
  'https://agent。example/x',
  `https://${at}/"`,
  'https://2130706433/x',
  'https://0x7f.1/x',
  'https://[::ffff:127.0.0.1]/x',
  `https://agent.example/${'x'.repeat(234)}`,
];

test('the address of a document has one spelling; every other client_id is unknown and fetches nothing', async () => {
  for (const good of [
    'https://agent.example/',
    'https://agent.example:8443/oauth/client.json',
    'https://agent.example/a%20b;c/..;/x',
    'https://xn--gent-43d.example/x',
    `https://agent.example/${'x'.repeat(233)}`,
  ])
    assert.equal(isClientUrl(good), true, good);
  const before = host.got.length;
  for (const bad of lookAlikes) {
    assert.equal(isClientUrl(bad), false, bad);
    const { status, text } = await browser.open(pathOf(bad));
    assert.equal(status, 400, bad);
    assert.match(text, /invalid_client/, bad);
  }
  assert.equal(host.got.length, before);
});

test('whatever is an address of a document is equal to its parsed form, and has what the draft requires', () => {
  const part = fc.stringMatching(/^[a-zA-Z0-9._~%!$&'()*+,;=:@/\\?# -]{0,12}$/);
  const url = fc.tuple(
    fc.constantFrom('https://', 'https:/', 'HTTPS://', 'http://', 'https:\\\\', 'https:'),
    fc.constantFrom(
      'agent.example',
      'Agent.example',
      'agent.example:443',
      'agent.example:8443',
      'u@agent.example',
      '[::1]',
    ),
    fc.array(fc.oneof(part, fc.constantFrom('.', '..', '%2e', '%2E.', '')), { maxLength: 4 }),
  );
  fc.assert(
    fc.property(url, ([scheme, authority, segments]) => {
      const text = scheme + authority + segments.map((segment) => `/${segment}`).join('');
      const isDot = (segment: string) => /^(?:\.|%2e){1,2}$/i.test(segment);
      const path = /^https:\/\/[a-z0-9.:[\]-]+(\/[^?#\\*\s]*)$/.exec(text)?.[1];
      const isExpected =
        path !== undefined && !path.split('/').some(isDot) && !text.includes(':443/') && new URL(text).href === text;
      assert.equal(isClientUrl(text), isExpected, text);
    }),
    { numRuns: 2_000 },
  );
});

const unusable: [what: string, document: object, says: RegExp][] = [
  ['another client_id', { client_id: 'https://agent.example/x' }, /its client_id is not exactly its own address/],
  ['no client_id', { client_id: undefined }, /its client_id is not exactly/],
  ['a secret', { client_secret: 'known to all' }, /must not have client_secret/],
  ['the expiry of a secret', { client_secret_expires_at: 0 }, /must not have client_secret_expires_at/],
  [
    'client_secret_basic',
    { token_endpoint_auth_method: 'client_secret_basic' },
    /token_endpoint_auth_method must be none/,
  ],
  ['client_secret_jwt', { token_endpoint_auth_method: 'client_secret_jwt' }, /token_endpoint_auth_method must be none/],
  ['private_key_jwt', { token_endpoint_auth_method: 'private_key_jwt' }, /token_endpoint_auth_method must be none/],
  ['no redirect address', { redirect_uris: [] }, /redirect_uris: at least one address is needed/],
  ['redirect_uris that are no list', { redirect_uris: DOCUMENT_REDIRECT }, /redirect_uris/],
  [
    'a redirect address that is script',
    { redirect_uris: ['javascript:alert(1)'] },
    /redirect_uris: the address must begin/,
  ],
  ['a redirect address with http', { redirect_uris: ['http://agent.example.com/back'] }, /must be https:/],
  ['a wildcard', { redirect_uris: ['https://*.example.com/back'] }, /must not have a wildcard/],
  [
    '21 redirect addresses',
    { redirect_uris: Array.from({ length: 21 }, (_, n) => `${DOCUMENT_REDIRECT}${n}`) },
    /at most 20/,
  ],
  ['an invisible name', { client_name: '\u200b' }, /client_name must be/],
  ['a name that reads backwards', { client_name: 'Agent\u202e' }, /client_name must be/],
  ['other grants alone', { grant_types: ['client_credentials'] }, /grant_types must hold authorization_code/],
  ['more than 5 KB', { client_name: 'x', note: 'x'.repeat(5_000) }, /larger than 5120 bytes/],
];
for (const [what, document, says] of unusable)
  test(`a document with ${what} is refused on a page`, async () => {
    assert.match(await refusedPage(host.publish('/unusable', document)), says);
  });

const body = (path: string, text: string, type = 'application/json') =>
  host.respondAt(path, (response) => response.writeHead(200, { 'Content-Type': type }).end(text));
const valid = (path: string) =>
  JSON.stringify({ client_id: `https://${host.host}${path}`, redirect_uris: [DOCUMENT_REDIRECT] });

test('only a 200 with JSON is a document: no redirect is followed, no page and no upload of a user is taken', async () => {
  const target = host.publish('/target');
  const moved = host.respondAt('/moved', (response) => response.writeHead(302, { Location: target }).end());
  assert.match(await refusedPage(moved), /status of the response is 302/);
  assert.equal(host.got.includes('GET /target'), false);
  const created = host.respondAt('/created', (response) =>
    response.writeHead(201, { 'Content-Type': 'application/json' }).end(valid('/created')),
  );
  assert.match(await refusedPage(created), /status of the response is 201/);
  for (const type of ['text/html', 'text/plain', 'application/octet-stream', 'text/json', 'application/json5'])
    assert.match(await refusedPage(body('/type', valid('/type'), type)), /Content-Type/, type);
  for (const text of ['', 'null', '[]', '"x"', '{"client_id"', `[${valid('/json')}]`, '{"a":1,"a":2}'])
    await refusedPage(body('/json', text));
  const { of } = await newPerson();
  const more = body('/more', valid('/more'), 'application/client+json; charset=utf-8');
  assert.equal((await of.open(pathOf(more))).status, 200);
});

test('a document without an end is read up to its limit', async () => {
  const endless = host.respondAt('/endless', (response) => {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    const write = (): void => {
      while (!response.destroyed && response.write(' '.repeat(1_024)));
      if (!response.destroyed) response.once('drain', write);
    };
    write();
  });
  assert.match(await refusedPage(endless), /larger than 5120 bytes/);
});

test('an address that the guard forbids is not reached, and the page does not say what is there', async () => {
  const closed = await startAuthorizationServer();
  const { of } = await newPerson(closed.origin, closed.sql);
  const before = host.got.length;
  for (const clientId of [host.publish('/guarded'), host.publish('/guarded').replace('127.0.0.1', 'localhost')]) {
    const { status, text } = await of.open(pathOf(clientId));
    assert.equal(status, 400);
    assert.match(text, /this server may not fetch it from its host/);
  }
  assert.equal(host.got.length, before);
});

test('a browser that is not signed in makes this server send no request', async () => {
  const clientId = host.publish('/signed-out');
  const { status, location } = await createBrowser(server.origin).open(pathOf(clientId));
  assert.deepEqual([status, location?.startsWith('/sign-in?')], [303, true]);
  const unknown = await token({ grant_type: 'authorization_code', client_id: clientId, code: 'hal_ac_x' });
  assert.deepEqual([unknown.status, unknown.body['error']], [401, 'invalid_client']);
  assert.equal(host.got.includes('GET /signed-out'), false);
});

test('a person can cause 20 requests, then one every 30 seconds, and other people are not delayed', async () => {
  const { of } = await newPerson();
  for (let n = 0; n < 20; n += 1) assert.equal((await of.open(pathOf(host.publish(`/many/${n}`)))).status, 200);
  const next = host.publish('/many/next');
  const { status, text } = await of.open(pathOf(next));
  assert.equal(status, 400);
  assert.match(text, /too many were fetched; try again in 30 seconds/);
  assert.equal(host.got.includes('GET /many/next'), false);
  assert.equal((await of.open(pathOf(host.publish('/many/0')))).status, 200, 'a document that is kept causes none');
  const other = await newPerson();
  assert.equal((await other.of.open(pathOf(next))).status, 200);
});

test('a person with slow documents has four at once, and other people are not delayed', async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { of } = await newPerson();
  const slow = Array.from({ length: 4 }, (_, n) =>
    host.respondAt(`/slow/${n}`, (response) => void released.then(() => response.writeHead(404).end())),
  );
  const waiting = slow.map((one) => of.open(pathOf(one)));
  await until(
    async () => host.got.filter((one) => one.startsWith('GET /slow/')),
    ({ length }) => length === 4,
  );
  const next = host.publish('/slow-next');
  const { status, text } = await of.open(pathOf(next));
  assert.equal(status, 400);
  assert.match(text, /others of yours are being fetched; try again shortly/);
  const other = await newPerson();
  assert.equal((await other.of.open(pathOf(next))).status, 200);
  release();
  for (const { status: ended } of await Promise.all(waiting)) assert.equal(ended, 400);
  assert.equal((await of.open(pathOf(next))).status, 200);
});

test('a redirect address that the document does not list is refused, also if the document loses it before the decision', async () => {
  const clientId = host.publish('/redirects', { redirect_uris: [DOCUMENT_REDIRECT] });
  for (const other of [`${DOCUMENT_REDIRECT}/`, `${DOCUMENT_REDIRECT}?x=1`, 'https://evil.example/back'])
    assert.match(await refusedPage(clientId, other), /redirect_uri_mismatch/);
  const { action, nonce, stores } = readForm(await browser.open(pathOf(clientId)));
  host.publish('/redirects', { redirect_uris: ['https://agent.example.com/new'] });
  server.wait(60_000);
  const store = String(stores[0]?.id);
  const { status, location, text } = await browser.post(action, { nonce, decision: 'allow', store });
  assert.deepEqual([status, location], [400, null]);
  assert.match(text, /redirect_uri_mismatch/);
});

test('a person who was shown one name and scope does not allow another', async () => {
  const clientId = host.publish('/renamed', { client_name: 'Agent' });
  const { of } = await newPerson();
  const { action, nonce, stores } = readForm(await of.open(pathOf(clientId)));
  host.publish('/renamed', { client_name: 'Another' });
  server.wait(60_000);
  const store = String(stores[0]?.id);
  const { status, location } = await of.post(action, { nonce, decision: 'allow', store });
  assert.deepEqual([status, location], [403, null]);
});

test('a code is redeemed only with the redirect address that it was sent to, whatever the document says then', async () => {
  const clientId = host.publish('/code');
  const { location } = await browser.consent(asking(clientId));
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  const evil = 'https://evil.example/back';
  host.publish('/code', { redirect_uris: [evil] });
  const form = { grant_type: 'authorization_code', client_id: clientId, code, code_verifier: VERIFIER };
  const wrong = await token({ ...form, redirect_uri: evil });
  assert.deepEqual([wrong.status, wrong.body['error']], [400, 'invalid_grant']);
  const other = host.publish('/other-code');
  await browser.consent(asking(other));
  const stolen = await token({ ...form, client_id: other, redirect_uri: DOCUMENT_REDIRECT });
  assert.deepEqual([stolen.status, stolen.body['error']], [400, 'invalid_grant'], 'another document is another client');
  assert.equal((await token({ ...form, redirect_uri: DOCUMENT_REDIRECT })).status, 200);
});

test('it needs PKCE, and no secret makes it another client', async () => {
  const clientId = host.publish('/pkce');
  const { code_challenge: _, code_challenge_method: __, ...without } = asking(clientId);
  const { location } = await browser.open(`/authorize?${new URLSearchParams(without).toString()}`);
  assert.equal(new URL(location ?? '').searchParams.get('error'), 'invalid_request');
  const code = new URL((await browser.consent(asking(clientId))).location ?? '').searchParams.get('code') ?? '';
  const form = { grant_type: 'authorization_code', client_id: clientId, code, redirect_uri: DOCUMENT_REDIRECT };
  const guess = await token({ ...form, code_verifier: VERIFIER, client_secret: 'guess' });
  assert.deepEqual([guess.status, guess.body['error']], [401, 'invalid_client']);
  const wrong = await token({ ...form, code_verifier: 'w'.repeat(43) });
  assert.deepEqual([wrong.status, wrong.body['error']], [400, 'invalid_grant']);
});

test('an operator suspends it, and its document is not asked for', async () => {
  const clientId = host.publish('/suspended');
  await browser.consent(asking(clientId));
  const { suspend } = await suspending(server);
  await suspend(`/operator/apps/${encodeURIComponent(clientId)}`, 'Abuse');
  server.wait(60_000);
  const before = host.got.length;
  const { of } = await newPerson();
  const { status, text } = await of.open(pathOf(clientId));
  assert.equal(status, 400);
  assert.match(text, /suspended this app/);
  assert.equal(host.got.length, before);
});

test('a document names one address: the same document at another name of its host is refused', async () => {
  assert.match(await refusedPage(host.publish('/x').replace('127.0.0.1', 'localhost')), /its client_id is not exactly/);
});
