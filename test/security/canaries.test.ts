/**
 * No response contains a secret of a webhook or an e-mail address that its caller may not see: every operation, in each state of its
 * target, by each caller. The endpoint repeats what it gets, so that a secret that was sent would come back in a response.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { METHODS, type Method } from '#http/route.ts';
import { addMember } from '#stores/store.ts';
import { startWithOwners } from '../setup/owners.ts';
import { passwords } from '../setup/passwords.ts';
import { startReceiver } from '../setup/receiver.ts';
import { send } from '../setup/send.ts';
import { createBrowser, ISSUER, PASSWORD, REDIRECT } from './oauth-server.ts';
import { fillIn, resourceTable } from './route-table.ts';

const receiver = await startReceiver();
receiver.answer(
  ({ path, headers, body }, response) => void response.end(JSON.stringify([path, headers, String(body)])),
);
const owners = await startWithOwners({ OUTBOUND_ALLOW: '127.0.0.0/8' });
const { sql, origin, platformToken: platform, newOwner, newApp, letIn } = owners;

type Asked = { token?: string; cookie?: string; accept?: string; body?: object; headers?: Record<string, string> };
async function call(method: string, path: string, { token, cookie, accept, body, headers }: Asked) {
  const { status, text } = await send(origin + path.replace(ISSUER, ''), {
    method,
    headers: {
      ...(token !== undefined && { Authorization: `Bearer ${token}`, 'SERVICE-API-VERSION': '1' }),
      ...(cookie !== undefined && { Cookie: cookie }),
      ...(accept !== undefined && { Accept: accept }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status, text };
}
async function made(path: string, token: string, body: object): Promise<Record<string, unknown>> {
  const { status, text } = await call('POST', path, { token, body });
  assert.ok(status >= 200 && status < 300, `${path}: ${status} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

/** Creates a person with a session. */
async function newPerson(email: string, isVerified = true) {
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: owners.now() });
  await sql`update users set is_email_verified = ${isVerified} where id = ${id}`;
  const browser = createBrowser(origin);
  await browser.signIn(email);
  return { id, email, cookie: browser.cookie() ?? '' };
}

const home = await newOwner();
const shop = `/stores/${home.storeId}`;
const member = await newPerson('canary-member@example.com');
const unverified = await newPerson('canary-unverified@example.com', false);
const invited = await newPerson('canary-invited@example.com');
const outsider = await newOwner();
// Apps read it; it was that of the owner.
await sql`update store set email = 'shop@example.com'`;
for (const userId of [member.id, unverified.id])
  await addMember(sql, { storeId: home.storeId, userId, role: 'member', now: owners.now() });
const { id: invitation } = await made(`${shop}/invitations`, platform, { role: 'member', email: invited.email });

const [first, second, all] = [await newApp(), await newApp(), await newApp()];
await sql`update client set scopes = array['store_full_access', 'webhooks'] where id = ${second.id}`;
const {
  client_id: clientId,
  client_secret: clientSecret,
  webhook_key: declaredKey,
} = await made('/clients', platform, {
  name: 'Declares',
  redirect_uris: [REDIRECT],
  webhook_url: `${receiver.url}/declared`,
});
const declaring = {
  id: (await sql<{ id: number }[]>`select id from client where client_id = ${String(clientId)}`)[0]?.id ?? NaN,
  credentials: { client_id: String(clientId), client_secret: String(clientSecret) },
};
const [byFirst, bySecond] = [await letIn(home, first), await letIn(home, second)];
const byDeclaring = await letIn(home, declaring);
const limited = await letIn(home, second, { scope: 'webhooks' });
const account = await letIn(home, all, { scope: 'user_full_access' });
const elsewhere = await letIn(outsider, first);

type Caller = { token?: string; cookie?: string };
const callers = {
  app: { token: byFirst.access },
  'another app': { token: bySecond.access },
  'another app, limited': { token: limited.access },
  'the declaring app': { token: byDeclaring.access },
  'an app with the account': { token: account.access },
  'the app in another store': { token: elsewhere.access },
  platform: { token: platform },
  owner: { cookie: home.browser.cookie() ?? '' },
  member: { cookie: member.cookie },
  unverified: { cookie: unverified.cookie },
  invited: { cookie: invited.cookie },
  outsider: { cookie: outsider.browser.cookie() ?? '' },
} as const satisfies Record<string, Caller>;
type Name = keyof typeof callers;

/** Each webhook: its id, and the callers that may see its secrets. The key of a declared one is of the app, not of the webhook. */
type Target = { id: number; visibleTo: readonly Name[] };
const targets = new Map<string, Target>();
async function hook(name: string, token: string, visibleTo: readonly Name[]): Promise<void> {
  const { id } = await made(`${shop}/webhooks`, token, {
    name,
    format: 'json',
    event_resource: 'transaction',
    url: `${receiver.url}/${name}?query=canary-${name}-query`,
    encryption_key: `canary-${name}-key`,
    headers: { 'X-Secret': `canary-${name}-header` },
  });
  targets.set(name, { id: Number(id), visibleTo });
  await made(`/webhooks/${Number(id)}/rotate_key`, token, { encryption_key: `canary-${name}-next` });
}
await hook('own', byFirst.access, ['app', 'owner']);
await hook('other', bySecond.access, ['another app', 'another app, limited', 'owner']);
await hook('platform', platform, ['platform', 'owner']);
const [declared] = await sql<{ id: number }[]>`
  select id from webhook where is_for_app and client = ${declaring.id} and store_id = ${home.storeId}`;
targets.set('declared', { id: declared?.id ?? NaN, visibleTo: [] });

/** Members of the store see each other; its owners see whom they invited; the platform sees all. */
const ofStore = ['owner', 'member', 'unverified'] as const;
const people: readonly { id: number; email: string; visibleTo: readonly Name[] }[] = [
  { id: home.userId, email: home.email, visibleTo: ofStore },
  { ...member, visibleTo: ofStore },
  { ...unverified, visibleTo: ofStore },
  { ...invited, visibleTo: ['owner', 'invited'] },
  { id: outsider.userId, email: outsider.email, visibleTo: ['outsider'] },
];

/** What only `visibleTo` may find in an answer. */
const canaries: readonly { text: string; visibleTo: readonly Name[] }[] = [
  ...[...targets].flatMap(([name, { visibleTo }]) =>
    name === 'declared'
      ? [{ text: String(declaredKey), visibleTo }]
      : ['key', 'next', 'header', 'query'].map((what) => ({ text: `canary-${name}-${what}`, visibleTo })),
  ),
  ...people.map(({ email, visibleTo }) => ({ text: email, visibleTo: [...visibleTo, 'platform' as const] })),
];

const event = { event: 'transaction/created', resource: { id: 77, _embedded: { 'svc:items': [{}] } } };
const { id: eventId } = await made(`${shop}/events`, platform, event);
const grant = await owners.grantOf(home);
const shared = {
  store_id: String(home.storeId),
  event_id: String(eventId),
  invitation_id: String(invitation),
  client_id: first.credentials.client_id,
  grant_id: String(grant),
  collection: 'transactions',
  id: '77',
  relation: 'items',
  resource_type: 'transaction',
  action: 'created',
  rel: 'webhook',
  page: 'oauth',
};

const routes = resourceTable(ISSUER);

/** Every address, with each state of the webhook or person in it, and a delivery and a recovery that exist by now. */
async function addresses() {
  const found = new Map<string, (typeof routes)[number]>();
  for (const { id: webhook } of targets.values()) {
    const [delivery] = await sql<{ id: number }[]>`
      select id from delivery where webhook_id = ${webhook} union all
      select id from delivery_done where webhook_id = ${webhook} order by id limit 1`;
    const [recovery] = await sql<{ id: number }[]>`select id from recovery where webhook_id = ${webhook}`;
    const own = {
      ...shared,
      webhook_id: String(webhook),
      delivery_id: String(delivery?.id ?? 0),
      recovery_id: String(recovery?.id ?? 0),
    };
    for (const { id: user } of people)
      for (const route of routes) found.set(fillIn(route, { ...own, user_id: String(user) }), route);
  }
  return [...found].map(([at, route]) => ({ at, route }));
}

/** A valid body for what acts, and a version that is not the present one for what would end or change a target. */
function requestOf(method: Method, at: string): Pick<Asked, 'body' | 'headers'> {
  if (method === 'GET') return {};
  if (method === 'POST') {
    if (at.endsWith('/answer')) return { body: { response_code: 200, duration: 1 } };
    if (at.endsWith('/recover')) return { body: { since: owners.now().toISOString() } };
    return { body: at.endsWith('/members') || at.endsWith('/invitations') ? { role: 'member', user: member.id } : {} };
  }
  const headers = { 'If-Match': '"0"' };
  return method === 'DELETE' ? { headers } : { headers, body: { name: 'Theirs', url: `${receiver.url}/elsewhere` } };
}

const statuses = new Map<number, number>();

/** Asks for every address as this caller, and returns the canaries that are not for them. Other formats have the same values. */
async function leaksTo(name: Name, methods: readonly Method[]): Promise<string[]> {
  const caller: Caller = callers[name];
  const accept = caller.token === undefined ? 'text/html' : 'application/hal+json';
  const foreign = canaries.filter(({ visibleTo }) => !visibleTo.includes(name));
  const leaks: string[] = [];
  for (const { at, route } of await addresses()) {
    for (const method of methods) {
      const operation = route.operations[method];
      if (operation === undefined || operation.isStream) continue;
      const path = operation.properties === undefined ? at : `${at}?limit=100`;
      const { status, text } = await call(method, path, { ...caller, accept, ...requestOf(method, at) });
      assert.ok(status < 500, `${name}: ${method} ${path}: ${status} ${text.slice(0, 300)}`);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      for (const canary of foreign)
        if (text.includes(canary.text)) leaks.push(`${name}: ${method} ${path}: ${canary.text}`);
    }
  }
  return leaks;
}

const ACTING = METHODS.filter((method) => method !== 'GET');

test('no response has a secret or an address that its caller may not see', async (t) => {
  const names = Object.keys(callers) as Name[];
  const leaks: string[] = [];
  for (const name of names.filter((one) => 'token' in callers[one])) leaks.push(...(await leaksTo(name, ACTING)));
  // What was sent and answered meanwhile is read as well.
  for (const name of names) leaks.push(...(await leaksTo(name, ['GET'])));
  assert.deepEqual(leaks, []);
  t.diagnostic([...statuses].map(([status, count]) => `${status}: ${count}`).join(', '));
  for (const [status, least] of [
    [200, 500],
    [202, 10],
    [404, 200],
  ] as const)
    assert.ok((statuses.get(status) ?? 0) >= least, String(status));
});

test('no endpoint got a secret of another webhook', () => {
  assert.ok(receiver.got.length > 0);
  for (const { path, headers, body } of receiver.got) {
    const [, name = ''] = /^\/(\w+)/.exec(path) ?? [];
    const text = JSON.stringify([path, headers]) + String(body);
    for (const other of targets.keys())
      if (other !== name) assert.ok(!text.includes(`canary-${other}-`), `${path} got one of ${other}`);
  }
});

test('who may see a secret or an address finds it', async () => {
  for (const [name, { id, visibleTo }] of targets) {
    const secrets = ['key', 'next', 'header', 'query'].map((what) => `canary-${name}-${what}`);
    for (const reader of visibleTo) {
      const caller: Caller = callers[reader];
      const { text } = await call('GET', `/webhooks/${id}`, {
        ...caller,
        ...(caller.token === undefined && { accept: 'text/html' }),
      });
      for (const secret of secrets) assert.ok(text.includes(secret), `${reader}: ${name} ${secret}`);
    }
  }
  const { text } = await call('GET', `${shop}/members`, { ...callers.member, accept: 'text/html' });
  for (const email of [home.email, member.email, unverified.email]) assert.ok(text.includes(email), email);
});

test('a session that was verified ten minutes ago sees no secret of a webhook', async () => {
  owners.wait(10 * 60_000);
  let shown = 0;
  for (const { at, route } of await addresses()) {
    const { GET: read } = route.operations;
    if (read === undefined || read.isStream) continue;
    const { status, text } = await call('GET', at, { ...callers.owner, accept: 'text/html' });
    shown += status === 200 ? 1 : 0;
    assert.doesNotMatch(text, /canary-\w+-(?:key|next|header|query)/, at);
  }
  assert.ok(shown > 30, `${shown} pages`);
});
