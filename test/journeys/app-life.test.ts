/**
 * The life of an app, by links only: its developer registers it with its webhook, a store lets it in, changes its scope and removes it,
 * and the app is sent each of these, signed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INTERNAL_SCHEMAS } from '#catalog/internal-types.ts';
import { createUser } from '#identity/accounts/users.ts';
import { verifyDelivery } from '#receiver';
import { createBrowser, readForm, type Browser } from '../security/oauth-server.ts';
import { hiddenIn } from '../security/page-forms.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { passwords } from '../setup/passwords.ts';

type Json = Record<string, unknown>;
type Links = Record<string, { href: string } | undefined>;

const REDIRECT = 'https://gadget.example.com/callback';
const PASSWORD = 'a long password';

const app = await startTestApp();
const receiver = await startReceiver();
const { baseUrl, sql, storeId, clock } = app;

/** Reads a representation as a program does, or as a person who is signed in does. */
async function read(href: string, headers: Record<string, string>): Promise<Json> {
  const response = await fetch(href, {
    headers: { Accept: 'application/hal+json', 'SERVICE-API-VERSION': '1', ...headers },
  });
  assert.equal(response.status, 200, `${href} ${await response.clone().text()}`);
  return (await response.json()) as Json;
}
function linkOf(representation: Json | undefined, rel: string): string {
  const links = (representation?.['_links'] ?? {}) as Links;
  const href = links[rel]?.href;
  assert.ok(href !== undefined, `${rel} in ${Object.keys(links).join(' ')}`);
  return href;
}
const itemsOf = (list: Json, rel: string): Json[] => (list['_embedded'] as Record<string, Json[]>)[rel] ?? [];
const bearing = (token: unknown) => ({ Authorization: `Bearer ${String(token)}` });

async function newPerson(email: string): Promise<Browser> {
  await createUser(sql, passwords, { email, password: PASSWORD, now: clock.now() });
  return signedIn(email);
}
async function signedIn(email: string): Promise<Browser> {
  const browser = createBrowser(baseUrl);
  assert.equal((await browser.signIn(email, PASSWORD)).status, 303);
  return browser;
}

async function send(href: string, body: string | URLSearchParams, headers: Record<string, string> = {}): Promise<Json> {
  const response = await fetch(href, { method: 'POST', body, headers });
  assert.ok(response.ok, `${response.status} ${await response.clone().text()}`);
  return (await response.json()) as Json;
}

/** Registers an app of the person who is signed in. */
async function register(developer: Browser, home: Json, settings: Json): Promise<Json> {
  const metadata = { redirect_uris: [REDIRECT], ...settings };
  const headers = {
    Cookie: developer.cookie() ?? '',
    'Content-Type': 'application/json',
    'Sec-Fetch-Site': 'same-origin',
  };
  return send(linkOf(home, 'svc:register'), JSON.stringify(metadata), headers);
}

const pageOf = (gadget: Json): string => `/account/clients/${String(gadget['client_id'])}`;

/** Replaces the key of the app's webhook with the form of its page. */
async function changeKey(developer: Browser, gadget: Json, change: 'begin' | 'finish'): Promise<void> {
  const action = `${pageOf(gadget)}/webhook-key`;
  const fields = hiddenIn(await developer.open(pageOf(gadget)), action);
  assert.equal(fields['change'], change);
  assert.equal((await developer.post(action, fields)).status, 303);
}

async function keyOnPage(developer: Browser, gadget: Json, summary: string): Promise<string> {
  const { text } = await developer.open(pageOf(gadget));
  return new RegExp(`${summary}</summary>\\s*<p><code>([^<]+)</code>`).exec(text)?.[1] ?? '';
}

/** Lets the app into the person's store or account on the consent page, and redeems the code. */
async function letIn(owner: Browser, home: Json, credentials: Json, scope: string): Promise<Json> {
  const asked = {
    response_type: 'code',
    client_id: String(credentials['client_id']),
    redirect_uri: REDIRECT,
    scope,
    state: 'of mine',
  };
  const { pathname } = new URL(linkOf(home, 'svc:authorize'));
  const page = await owner.open(`${pathname}?${new URLSearchParams(asked).toString()}`);
  const { action, nonce, stores, checked } = readForm(page);
  const { location } = await owner.post(action, [
    ['nonce', nonce],
    ['decision', 'allow'],
    ...stores.slice(0, 1).map(({ id }): [string, string] => ['store', String(id)]),
    ...checked.map((permission): [string, string] => ['permission', permission]),
  ]);
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: REDIRECT,
    client_id: String(credentials['client_id']),
    client_secret: String(credentials['client_secret']),
  };
  return send(linkOf(home, 'svc:token'), new URLSearchParams(form));
}

test('an app is registered, let in, asked for more, and removed, and is sent each of these, signed', async () => {
  const owner = await signedIn('owner@example.com');
  const developer = await newPerson('developer@example.com');
  const home = await read(baseUrl, {});
  const declaring = (name: string): Json => ({
    client_name: name,
    scope: 'webhooks store_read events_read',
    webhook_url: `${receiver.url}/${name}`,
    webhook_events: ['transaction/created'],
    webhook_query: 'fields=id',
  });
  const gadget = await register(developer, home, declaring('gadget'));
  const other = await register(developer, home, declaring('other'));
  assert.deepEqual([gadget['webhook_events'], gadget['webhook_query']], [['transaction/created'], 'fields=id']);
  const keys = [String(gadget['webhook_key'])];
  const next = async (count: number): Promise<{ event: string; payload: Json }> => {
    await receiver.until(count);
    const got = receiver.got[count - 1];
    assert.ok(got !== undefined);
    assert.equal(got.path, '/gadget');
    const { headers, body } = got;
    const delivery = await verifyDelivery({ headers, body, keys, now: () => clock.now() });
    return { event: delivery.event, payload: delivery.json() as Json };
  };

  const first = await letIn(owner, home, gadget, 'webhooks');
  const installed = await next(1);
  assert.deepEqual([installed.event, installed.payload['client_id']], ['app/installed', gadget['client_id']]);
  assert.deepEqual([installed.payload['scope'], installed.payload['store_id']], ['webhooks', storeId]);
  const members = Object.keys(installed.payload).filter((name) => !name.startsWith('_'));
  assert.deepEqual(members, Object.keys(INTERNAL_SCHEMAS.app.properties));

  const store = await read(
    linkOf(await read(baseUrl, bearing(first['access_token'])), 'svc:store'),
    bearing(first['access_token']),
  );
  const webhooks = itemsOf(await read(linkOf(store, 'svc:webhooks'), bearing(first['access_token'])), 'svc:webhooks');
  const own = webhooks.find(({ url }) => url === `${receiver.url}/gadget`);
  // The result of a delivery is recorded after its response.
  const delivery = await until(
    async () => itemsOf(await read(linkOf(own, 'svc:statuses'), bearing(first['access_token'])), 'svc:statuses')[0],
    (one) => one?.['status'] !== 'pending',
  );
  assert.deepEqual([delivery?.['event'], delivery?.['status']], ['app/installed', 'successful']);

  const tool = await register(developer, home, { client_name: 'The tool of the developer' });
  const person = bearing((await letIn(developer, home, tool, 'user_full_access'))['access_token']);
  const account = await read(linkOf(await read(baseUrl, person), 'svc:user'), person);
  const clients = itemsOf(await read(linkOf(account, 'svc:clients'), person), 'svc:clients');
  const client = clients.find(({ client_id: id }) => id === gadget['client_id']);
  const installs = itemsOf(await read(linkOf(client, 'svc:installs'), person), 'svc:installs');
  assert.deepEqual(
    installs.map(({ store_id: id, scope }) => [id, scope]),
    [[storeId, 'webhooks']],
  );

  await letIn(owner, home, gadget, 'webhooks store_read');
  const changed = await next(2);
  assert.equal(changed.event, 'app/scopes_changed');
  assert.deepEqual([changed.payload['scope'], changed.payload['previous_scope']], ['store_read webhooks', 'webhooks']);

  const older = keys[0] ?? '';
  await changeKey(developer, gadget, 'begin');
  const newer = await keyOnPage(developer, gadget, 'Show the new key');
  await letIn(owner, home, gadget, 'webhooks events_read');
  keys[0] = older;
  assert.equal((await next(3)).event, 'app/scopes_changed');
  keys[0] = newer;
  assert.equal((await next(3)).event, 'app/scopes_changed', 'the delivery is signed with both keys');
  await changeKey(developer, gadget, 'finish');
  assert.equal(await keyOnPage(developer, gadget, 'Show the key'), newer);
  const shown = await read(linkOf(delivery, 'self'), bearing(first['access_token']));
  await send(linkOf(shown, 'svc:resend'), '', { ...bearing(first['access_token']), 'SERVICE-API-VERSION': '1' });
  assert.equal((await next(4)).event, 'app/installed');
  keys[0] = older;
  await assert.rejects(next(4), { code: 'bad_signature' }, 'the older key signs nothing any more');
  keys[0] = newer;

  const page = await owner.open('/account');
  const [, revoke = ''] = /gadget.*?action="(\/account\/connected\/\d+\/revoke)"/s.exec(page.text) ?? [];
  assert.equal((await owner.post(revoke, hiddenIn(page, revoke))).status, 303);
  const removed = await next(5);
  assert.deepEqual([removed.event, removed.payload['scope']], ['app/uninstalled', null]);
  assert.deepEqual(
    [removed.payload['previous_scope'], removed.payload['store_id']],
    ['events_read store_read webhooks', storeId],
  );
  const headers = { ...bearing(first['access_token']), 'SERVICE-API-VERSION': '1' };
  assert.equal((await fetch(linkOf(store, 'self'), { headers })).status, 401);

  await letIn(owner, home, other, 'webhooks');
  await receiver.until(6);
  assert.deepEqual(
    receiver.got.map(({ path }) => path),
    ['/gadget', '/gadget', '/gadget', '/gadget', '/gadget', '/other'],
  );
});

test('a developer tries an app in a sandbox store, by links only: sample events arrive at its webhook, signed', async () => {
  const developer = await newPerson('sandbox@example.com');
  const home = await read(baseUrl, {});
  const tool = await register(developer, home, { client_name: 'The tool of the developer' });
  const ofTool = await letIn(developer, home, tool, 'user_full_access');
  const whole = { ...bearing(ofTool['access_token']), 'SERVICE-API-VERSION': '1', 'Content-Type': 'application/json' };
  const account = await read(linkOf(await read(baseUrl, whole), 'svc:user'), whole);
  const sandbox = await send(linkOf(account, 'svc:sandbox_store'), '', whole);
  const tried = await register(developer, home, { client_name: 'tried', scope: 'webhooks' });
  const ofTried = await letIn(developer, home, tried, 'webhooks');
  const limited = { ...whole, ...bearing(ofTried['access_token']) };
  const store = await read(linkOf(await read(baseUrl, limited), 'svc:store'), limited);
  assert.deepEqual([store['id'], store['is_sandbox']], [sandbox['id'], true]);
  const key = 'k'.repeat(32);
  const hook = { name: 'tried', format: 'json', url: `${receiver.url}/tried`, encryption_key: key };
  const all = JSON.stringify({ ...hook, event_resource: 'transaction' });
  await send(linkOf(store, 'svc:webhooks'), all, limited);

  const before = receiver.got.length;
  await send(linkOf(sandbox, 'svc:sample_events'), JSON.stringify({ scenario: 'refund' }), whole);
  await receiver.until(before + 3);
  const events = [];
  for (const { headers, body } of receiver.got.slice(before)) {
    const delivery = await verifyDelivery({ headers, body, keys: [key], now: () => clock.now() });
    events.push(`${delivery.event} ${String((delivery.json() as Json)['status'])}`);
  }
  const expected = ['created authorized', 'captured captured', 'refunded refunded'];
  assert.deepEqual(new Set(events), new Set(expected.map((one) => `transaction/${one}`)));
});
