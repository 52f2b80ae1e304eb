/** /authorize: requirements for public clients, audit entries, rejected requests, and requests without a session (RFC 9700 §4.11.2). */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createUser } from '#identity/accounts/users.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import type { Queryable } from '#db/pool.ts';
import { addMember } from '#stores/store.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { createBrowser, PASSWORD, readForm, startAuthorizationServer, type Page, REDIRECT } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';
import { amountOf } from '../setup/amount.ts';

const server = await startAuthorizationServer();
const { asking, browser, sql, alpha, adaId } = server;
const details = { name: 'Desk app', trusted: false, now: new Date('2026-07-01T10:00:00.000Z') };
const LOOPBACK = 'http://127.0.0.1/cb';
const desk = await createClient(sql, {
  isPublic: true,
  ...details,
  redirectUris: [LOOPBACK, 'http://[::1]:9/cb', 'http://localhost/cb'],
});
const owned = await createClient(sql, {
  ...details,
  redirectUris: ['https://secret-staging.example.com/some/where'],
  owner: { userId: adaId, clientsPerUser: 50 },
});

const verifier = 'v'.repeat(43);
const challenge = createHash('sha256').update(verifier).digest('base64url');
const proof = { code_challenge: challenge, code_challenge_method: 'S256' };
const addressOf = (changes: Record<string, string | undefined> = {}): string =>
  `/authorize?${new URLSearchParams(asking(changes)).toString()}`;
const fromDesk = (changes: Record<string, string | undefined> = {}) =>
  asking({ client_id: desk.client_id, redirect_uri: LOOPBACK, ...proof, ...changes });
const parametersOf = (location: string | null) => new URL(location ?? '').searchParams;

type AuditEntry = { action: string; userId: number; storeId: number | null; address: string; detail: unknown };
const grantEntries = (): Promise<AuditEntry[]> => sql<AuditEntry[]>`
  select action, user_id as "userId", store_id as "storeId", address, detail from audit
  where action like 'grant%' order by id
`;

const countGrants = async (): Promise<unknown> =>
  sql`select (select count(*) from access_grant) as grants, (select count(*) from authorization_code) as codes`;
const countRows = async (): Promise<unknown> => [
  await countGrants(),
  await sql`select (select count(*) from audit) as entries, (select count(*) from session) as sessions`,
];

const signedOut = createBrowser(server.origin);
const unverifiedDetails = { name: 'Unverified', trusted: false, isVerified: false, now: server.now() };
const unverifiedApp = await createClient(server.sql, {
  ...unverifiedDetails,
  redirectUris: ['https://phishing.example/cb'],
});

// With a session

test('a public client must send a challenge', async () => {
  const query = new URLSearchParams(fromDesk({ code_challenge: undefined, code_challenge_method: undefined }));
  const { status, location } = await browser.open(`/authorize?${query.toString()}`);
  assert.equal(status, 303);
  assert.equal(parametersOf(location).get('error'), 'invalid_request');
  assert.match(parametersOf(location).get('error_description') ?? '', /^A public client .*code_challenge/);
  assert.equal(parametersOf(location).get('state'), 'a state');
});

test('a confidential client must send a challenge if its owner requires it', async () => {
  const { client_id: clientId } = server.client;
  const answerTo = async (changes: Record<string, string>) =>
    browser.open(`/authorize?${new URLSearchParams(asking(changes)).toString()}`);
  assert.equal((await answerTo({})).status, 200);
  await sql`update client set requires_pkce = true where client_id = ${clientId}`;
  const { location } = await answerTo({});
  assert.equal(parametersOf(location).get('error'), 'invalid_request');
  assert.match(parametersOf(location).get('error_description') ?? '', /^This client .*code_challenge/);
  assert.equal((await answerTo({ code_challenge: challenge, code_challenge_method: 'S256' })).status, 200);
  await sql`update client set requires_pkce = false where client_id = ${clientId}`;
});

test('a missing state is reported before a missing challenge', async () => {
  const changes = { state: undefined, code_challenge: undefined, code_challenge_method: undefined };
  const { location } = await browser.open(`/authorize?${new URLSearchParams(fromDesk(changes)).toString()}`);
  assert.equal(parametersOf(location).get('error_description'), 'The state parameter is required');
});

for (const redirect_uri of [
  'http://127.0.0.1:49152/cb',
  'http://[::1]:49152/cb',
  'http://[::1]/cb',
  'http://localhost:49152/cb',
]) {
  test(`a public client receives the answer on the port it listens on, and redeems with it: ${redirect_uri}`, async () => {
    const { location } = await browser.consent(fromDesk({ redirect_uri }));
    assert.ok(location?.startsWith(`${redirect_uri}?code=`), `${location}`);
    const code = parametersOf(location).get('code') ?? '';
    const form = { grant_type: 'authorization_code', code, client_id: desk.client_id, code_verifier: verifier };
    const elsewhere = await server.token({ ...form, redirect_uri: LOOPBACK });
    assert.equal(elsewhere.body['error'], 'invalid_grant');
    assert.equal((await server.token({ ...form, redirect_uri })).status, 200);
  });
}

test('an approval has an audit entry with its user, client and store', async () => {
  const before = await grantEntries();
  await browser.consent(asking());
  const [entry, ...others] = (await grantEntries()).slice(before.length);
  assert.deepEqual(others, []);
  const detail = { client: 'Mailer', scope: 'store_full_access', store: 'Alpha' };
  assert.deepEqual(entry, { action: 'grant_given', userId: adaId, storeId: alpha, address: '127.0.0.1', detail });
});

test('a denial has an audit entry', async () => {
  const before = await grantEntries();
  await browser.consent(asking(), { decision: 'deny' });
  const detail = { client: 'Mailer', scope: 'store_full_access' };
  const entry = { action: 'grant_denied', userId: adaId, storeId: null, address: '127.0.0.1', detail };
  assert.deepEqual((await grantEntries()).slice(before.length), [entry]);
});

/** Allows while `removal` runs: it has begun when the page's form is checked and has ended when a grant is written. */
async function allowDuring(removal: (tx: Queryable) => Promise<unknown>): Promise<Page> {
  const { action, nonce } = readForm(await browser.open(addressOf()));
  const before = await countGrants();
  const connection = await sql.reserve();
  await connection`begin`;
  await removal(connection);
  let isAnswered = false;
  const answered = browser.post(action, { nonce, decision: 'allow', store: String(alpha) });
  void answered.finally(() => (isAnswered = true));
  await until(
    () => waitingForLocks(sql),
    (count) => count > 0 || isAnswered,
  );
  await connection`commit`;
  connection.release();
  const page = await answered;
  assert.deepEqual(await countGrants(), before);
  return page;
}

test('a user who left the store during the approval grants nothing', async () => {
  const page = await allowDuring((tx) => tx`delete from membership where store_id = ${alpha} and user_id = ${adaId}`);
  assert.equal(page.status, 409);
  assert.match(page.text, /Access was not granted/);
  await sql`
    insert into membership (shard, store_id, user_id, role, date_created)
    values (${alpha % 256}, ${alpha}, ${adaId}, 'owner', ${details.now})
  `;
});

test('a session that a new password ended during the approval grants nothing', async () => {
  await createBrowser(server.origin).signIn(server.ada);
  const own = createHash('sha256')
    .update(browser.jar.get('halcyon') ?? '')
    .digest();
  const { location } = await allowDuring((tx) => tx`delete from session where hash = ${own}`);
  assert.match(location ?? '', /^\/sign-in\?/);
  await browser.signIn(server.ada);
});

test('GET, HEAD and prefetch change nothing', async () => {
  const before = await countRows();
  const prefetch = await fetch(server.origin + addressOf(), {
    headers: { Cookie: browser.cookie() ?? '', 'Sec-Purpose': 'prefetch', Purpose: 'prefetch' },
  });
  const statuses = [(await browser.open(addressOf())).status, (await browser.head(addressOf())).status];
  assert.deepEqual([...statuses, prefetch.status], [200, 200, 200]);
  assert.deepEqual(await countRows(), before);
});

const misdirected = { client_id: owned.client_id, redirect_uri: 'https://evil.example/<x>/"\u202e' };

test('a rejected address is shown with the differences, and the registered addresses are not', async () => {
  for (const stranger of [createBrowser(server.origin), createBrowser(server.origin)]) {
    const { text, location } = await stranger.open(addressOf(misdirected));
    assert.equal(location, null);
    assert.ok(text.includes('https://evil.example/&lt;x&gt;/&quot;\uFFFD'));
    assert.match(text, /<strong>the host, the path<\/strong>/);
    assert.doesNotMatch(text, /secret-staging|some\/where/);
    await stranger.signIn(server.bob);
  }
});

test('the owner of the client sees the registered addresses', async () => {
  const { text } = await browser.open(addressOf(misdirected));
  assert.ok(text.includes('<code>https://secret-staging.example.com/some/where</code>'));
});

test('a rejected address is shortened', async () => {
  const { text } = await browser.open(addressOf({ redirect_uri: `https://evil.example/${'x'.repeat(1_000)}` }));
  assert.match(text, /x{150,200}…/);
  assert.doesNotMatch(text, /x{201}/);
});

test('a client that the platform has not checked is called unverified, and no other is', async () => {
  const stranger = await createClient(sql, { ...details, redirectUris: [LOOPBACK], isVerified: false });
  const unverified = await browser.open(addressOf({ client_id: stranger.client_id, redirect_uri: LOOPBACK }));
  assert.match(unverified.text, /Unverified/);
  assert.doesNotMatch((await browser.open(addressOf())).text, /Unverified/);
});

test('if the client names a store that the user cannot open, the page says so and preselects none', async () => {
  const page = await browser.open(addressOf({ scope: 'store_full_access store_id_999936' }));
  assert.match(page.text, /asks for another store than yours/);
  assert.ok(readForm(page).stores.every(({ isChosen }) => !isChosen));
  assert.doesNotMatch((await browser.open(addressOf())).text, /another store/);
  const single = createBrowser(server.origin);
  const email = 'one-store@example.com';
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  await addMember(sql, { storeId: alpha, userId: id, role: 'owner', now: server.now() });
  await single.signIn(email);
  const chosen = async (scope: string) => readForm(await single.open(addressOf({ scope }))).stores;
  assert.deepEqual(await chosen('store_full_access'), [{ id: alpha, isChosen: true }]);
  assert.deepEqual(await chosen('store_full_access store_id_999936'), [{ id: alpha, isChosen: false }]);
});

test('the store that the client names is first and selected', async () => {
  const { stores } = readForm(await browser.open(addressOf({ scope: `store_full_access store_id_${server.beta}` })));
  assert.deepEqual(stores, [
    { id: server.beta, isChosen: true },
    { id: alpha, isChosen: false },
  ]);
});

// Without a session

type Client = { client_id: string; redirect_uri: string };
const phishing: Client = { client_id: unverifiedApp.client_id, redirect_uri: 'https://phishing.example/cb' };
const verified: Client = { client_id: server.client.client_id, redirect_uri: REDIRECT };

/** Raw, so that broken percent sequences and repeated parameters get through. */
const rest = fc
  .array(
    fc.oneof(
      fc.constantFrom('response_type=code', 'response_type=token', 'response_type=', 'prompt=none'),
      fc.constantFrom('scope=store_full_access', 'scope=user_full_access', 'scope=all', 'scope='),
      fc.constantFrom('state=s', 'state=', 'state=%ff', 'state=%00', 'state=a%5Cb', 'state=a\\b'),
      fc.constantFrom('code_challenge=x', 'code_challenge_method=plain', '%zz', '&', '?'),
    ),
    { maxLength: 6 },
  )
  .map((pairs) => pairs.join('&'));

const asked = fc.record({
  client: fc.constantFrom(phishing, verified),
  more: rest,
  method: fc.constantFrom('GET', 'POST'),
});

const addressFor = (client: Client, more: string): string =>
  `/authorize?${new URLSearchParams(client).toString()}&${more}`;

test('without a session /authorize redirects to the sign-in page only', async () => {
  await fc.assert(
    fc.asyncProperty(asked, async ({ client, more, method }) => {
      const at = addressFor(client, more);
      const page = method === 'GET' ? await signedOut.open(at) : await signedOut.post(at, { decision: 'deny' });
      assert.deepEqual([page.status, new URL(page.location ?? '', server.origin).pathname], [303, '/sign-in'], at);
    }),
    { numRuns: amountOf('any-form', { all: 100, part: 30 }) },
  );
});

const faults: readonly (readonly [what: string, more: string, error: string, state: string | null])[] = [
  ['no response_type', 'scope=store_full_access&state=s', 'invalid_request', 's'],
  ['a repeated state', 'response_type=code&scope=store_full_access&state=s&state=t', 'invalid_request', null],
  ['an unknown scope', 'response_type=code&scope=all&state=a\\b%2B%23', 'invalid_scope', 'a\\b+#'],
  ['a state that is not UTF-8', 'response_type=code&scope=store_full_access&state=%ff', 'invalid_request', null],
];
for (const [what, more, error, state] of faults) {
  test(`after sign-in the client receives the error of the request as it was sent: ${what}`, async () => {
    const person = createBrowser(server.origin);
    const { location } = await person.open(addressFor(phishing, more));
    const returnTo = new URL(location ?? '', server.origin).searchParams.get('return_to') ?? '';
    const signedIn = await person.post('/sign-in', { email: server.ada, password: PASSWORD, return_to: returnTo });
    const back = new URL((await person.open(signedIn.location ?? '')).location ?? '');
    assert.equal(back.origin, 'https://phishing.example');
    assert.deepEqual([back.searchParams.get('error'), back.searchParams.get('state')], [error, state]);
  });
}

test('form-action of the sign-in page lists the redirect address of an erroneous request, and of no other', async () => {
  const policyAt = async (more: string): Promise<string> => {
    const { location } = await signedOut.open(addressFor(phishing, more));
    return (await signedOut.open(location ?? '')).headers.get('content-security-policy') ?? '';
  };
  assert.match(await policyAt('scope=all?&state=s'), /form-action 'self' https:\/\/phishing\.example https:;/);
  assert.match(await policyAt('response_type=code&scope=user_full_access&state=s'), /form-action 'self';/);
});
