/** The sandbox store of a developer and its sample events: by links, in the pages, and for callers who may not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { addMember } from '#stores/store.ts';
import { faultsOf, itemsOf, type Reply, type Representation } from '../setup/caller.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { createBrowser, PASSWORD } from '../security/oauth-server.ts';
import { submit } from '../security/page-forms.ts';
import { createFiller, filled } from '../setup/form-filler.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { passwords } from '../setup/passwords.ts';

const people = await startWithPeople();
const { call, sql, browser, alpha, adaId, account, store: storeToken, platformToken: platform } = people;
const off = await startWithPeople({ SANDBOX_STORES: 'off' });

const linkOf = ({ body }: { body: Representation }, rel: string): string => {
  const href = body._links[`svc:${rel}`]?.href;
  assert.ok(href !== undefined, `${rel} in ${Object.keys(body._links).join(' ')}`);
  return href;
};
const send = (path: string, body: object, headers = {}): Promise<Reply> =>
  call('POST', path, { token: account, body, headers });

/** Returns Ada's sandbox store, found as a program finds it. */
async function sandbox(): Promise<Reply> {
  const user = await call('GET', linkOf(await call('GET', '/', { token: account }), 'user'), { token: account });
  return call('POST', linkOf(user, 'sandbox_store'), { token: account });
}
const idOf = ({ body }: Reply): number => Number(body['id']);

let count = 0;
async function newPerson() {
  const email = `developer${(count += 1)}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: people.now() });
  const own = createBrowser(people.origin);
  await own.signIn(email);
  const { location } = await submit(own, '/account/clients', '/account/sandbox-store');
  return { id, own, path: location ?? '' };
}

/** Returns the resources that the events published, by event, oldest first. */
async function published(reply: Reply): Promise<[event: string, resource: Representation][]> {
  const all: [string, Representation][] = [];
  for (const event of itemsOf(reply, 'events')) {
    const zoom = String(event['event']).startsWith('transaction/') ? '?zoom=customer' : '';
    const payload = await call('GET', linkOf({ body: event }, 'payload') + zoom, { token: account });
    all.push([String(event['event']), payload.body]);
  }
  return all;
}

test('a user has one sandbox store, however often and concurrently it is requested, and owns it', async () => {
  const made = await Promise.all([sandbox(), sandbox(), sandbox()]);
  assert.deepEqual(
    made.map(({ status }) => status),
    [200, 200, 200],
  );
  assert.equal(new Set(made.map(idOf)).size, 1);
  const [first] = made;
  assert.ok(first !== undefined);
  assert.equal(first.body['is_sandbox'], true);
  const { body: member } = await call('GET', `/stores/${idOf(first)}/members/${adaId}`, { token: account });
  assert.equal(member['role'], 'owner');
  assert.equal((await call('GET', `/stores/${alpha}`, { token: account })).body['is_sandbox'], false);
});

test('a developer whom another owner removed gets the sandbox store back', async () => {
  const id = idOf(await sandbox());
  await sql`delete from membership where store_id = ${id} and user_id = ${adaId}`;
  assert.equal(idOf(await sandbox()), id);
  assert.equal((await call('GET', `/stores/${id}`, { token: account })).status, 200);
});

test('an app cannot read the e-mail address of the developer in the sandbox store', async () => {
  const { body } = await sandbox();
  const [user] = await sql<{ email: string }[]>`select email from users where id = ${adaId}`;
  assert.ok(!JSON.stringify(body).includes(user?.email ?? '@'));
});

test('the scenarios publish events that belong together, which webhooks of the store receive', async () => {
  const store = await sandbox();
  const hook = { name: 'All', format: 'json', url: 'https://hooks.example.com/x', encryption_key: 'k'.repeat(32) };
  const webhook = await send(linkOf(store, 'webhooks'), { ...hook, event_resource: 'transaction' });
  assert.equal(webhook.status, 201);
  const refund = await published(await send(linkOf(store, 'sample_events'), { scenario: 'refund' }));
  assert.deepEqual(
    refund.map(([event]) => event),
    [
      'customer/created',
      'transaction/created',
      'transaction/captured',
      'transaction_log/created',
      'transaction/refunded',
      'transaction_log/created',
    ],
  );
  const [customer, order, captured, log, refunded] = refund.map(([, resource]) => resource);
  assert.deepEqual(
    [order, captured, refunded].map((one) => one?.['status']),
    ['authorized', 'captured', 'refunded'],
  );
  assert.equal(order?.['customer_email'], customer?.['email']);
  const embedded = order?._embedded?.['svc:customer'] as unknown as Representation | undefined;
  assert.equal(embedded?.['id'], customer?.['id']);
  assert.deepEqual([order?.['id'], order?.['id']], [captured?.['id'], log?.['transaction_id']]);
  const statuses = await call('GET', linkOf(webhook, 'statuses'), { token: account });
  assert.equal(Number(statuses.body['total_items']), 3);
});

test('a sample subscription is created, billed and cancelled, and Halcyon derives its steps', async () => {
  const store = await sandbox();
  const made = await published(await send(linkOf(store, 'sample_events'), { scenario: 'subscription' }));
  assert.deepEqual(
    made.map(([event]) => event),
    [
      'customer/created',
      'subscription/created',
      'transaction/created',
      'transaction/captured',
      'subscription/modified',
      'subscription/cancelled',
    ],
  );
  const steps = itemsOf(
    await call('GET', linkOf(store, 'subscription_events'), { token: account }),
    'subscription_events',
  );
  const kinds = steps.map((step) => step['event']);
  assert.deepEqual(kinds, ['activated', 'billing_success', 'cancelled']);
});

test('count repeats a scenario for other customers, up to ten', async () => {
  const path = linkOf(await sandbox(), 'sample_events');
  const made = await published(await send(path, { count: 10 }));
  assert.equal(made.length, 40);
  assert.equal(new Set(made.map(([event, { id }]) => `${event} ${String(id)}`)).size, 40);
  assert.deepEqual(faultsOf(await send(path, { count: 11, scenario: 'flood' })), [
    'count invalid_value',
    'scenario invalid_value',
  ]);
});

test('a repeated request under one idempotency key makes events once; another request under it is refused', async () => {
  const path = linkOf(await sandbox(), 'sample_events');
  const headers = { 'Idempotency-Key': 'sample once' };
  const [first, second] = [await send(path, { count: 2 }, headers), await send(path, { count: 2 }, headers)];
  const ids = (reply: Reply) => itemsOf(reply, 'events').map(({ id }) => id);
  assert.equal(ids(first).length, 8);
  assert.deepEqual(ids(second), ids(first));
  const other = await send(path, { count: 3 }, headers);
  assert.deepEqual([other.status, faultsOf(other)], [422, ['Idempotency-Key idempotency_key_reused']]);
});

test('no events are made in a store that is not a sandbox, also not by the platform', async () => {
  const before = await sql`select from event where store_id = ${alpha} and resource_type = 'customer'`;
  for (const token of [account, storeToken, platform]) {
    const reply = await call('POST', `/stores/${alpha}/sample_events`, { token, body: {} });
    assert.deepEqual([reply.status, faultsOf(reply)], [409, ['- not_a_sandbox']]);
  }
  const after = await sql`select from event where store_id = ${alpha} and resource_type = 'customer'`;
  assert.equal(after.length, before.length);
  assert.ok(!('svc:sample_events' in (await call('GET', `/stores/${alpha}`, { token: account })).body._links));
});

test('another user has neither the sandbox store nor its sample events', async () => {
  const { id, path } = await newPerson();
  assert.equal((await call('POST', `${path}/sample_events`, { token: account, body: {} })).status, 404);
  assert.equal((await call('POST', `/users/${id}/sandbox_store`, { token: account })).status, 404);
  assert.equal((await call('POST', `/users/${adaId}/sandbox_store`, { token: storeToken })).status, 404);
});

test('too many requests in a sandbox store are a 429 that says when to continue', async () => {
  const { path } = await newPerson();
  const replies = [];
  for (let n = 0; n < 21; n += 1)
    replies.push(await call('POST', `${path}/sample_events`, { token: platform, body: { scenario: 'checkout' } }));
  const last = replies.pop();
  assert.ok(replies.every(({ status }) => status === 200));
  assert.deepEqual([last?.status, last?.headers.get('retry-after')], [429, '300']);
});

test('the page of the apps creates the sandbox store, whose page makes events and is marked', async () => {
  const { own, path } = await newPerson();
  assert.match((await own.open('/account/clients')).text, new RegExp(`href="${path}"`));
  const filler = createFiller(people.origin, own);
  assert.match(await (await filler.show(path)).text(), /<span class="badge plain">Sandbox<\/span>/);
  const action = `${path}/sample_events`;
  const form = await filler.formFor(path, 'POST');
  const answer = await filler.send(action, filled(form, { scenario: 'checkout', count: '2' }));
  assert.deepEqual([answer.status, answer.headers.get('location')], [303, `${path}/events?done=created`]);
  const again = await filler.send(action, filled(form, { scenario: 'checkout', count: '2' }));
  assert.equal(again.status, answer.status, 'a double click');
  const { body } = await call('GET', `${path}/events?event=customer/created`, { token: platform });
  assert.equal(Number(body['total_items']), 2);
});

test('the platform finds sandbox stores by is_sandbox, and may publish into them', async () => {
  const { path } = await newPerson();
  const { body } = await call('GET', '/stores?is_sandbox=1&limit=100', { token: platform });
  const listed = body._embedded?.['svc:stores'] ?? [];
  assert.ok(listed.some(({ id }) => path.endsWith(`/${String(id)}`)));
  assert.ok(listed.every(({ is_sandbox: isSandbox }) => isSandbox === true));
  const event = { event: 'customer/created', resource: { id: 1 } };
  assert.equal((await call('POST', `${path}/events`, { token: platform, body: event })).status, 201);
});

test('the sandbox store is erased with the account, although it has another member and no other owner', async () => {
  const { id, own, path } = await newPerson();
  const storeId = Number(path.split('/').pop());
  await addMember(sql, { storeId, userId: adaId, role: 'member', now: people.now() });
  assert.equal((await call('GET', path, { token: account })).status, 200);
  const declaring = {
    name: 'Gadget',
    redirect_uris: ['https://gadget.example.com/cb'],
    webhook_url: 'https://gadget.example.com/events',
  };
  const client = await call('POST', '/clients', { token: platform, body: declaring });
  const grant = { clientId: String(client.body['client_id']), userId: id, storeId, now: people.now() };
  await letAppIn({ sql, baseUrl: people.origin }, grant);
  const answer = await submit(own, '/account/erase', '/account/erase', { current: PASSWORD });
  assert.equal(answer.status, 200, answer.text);
  assert.equal((await call('GET', path, { token: platform })).status, 404);
  assert.equal((await sql`select from users where id = ${id}`).length, 0);
  const events = await sql<{ action: string }[]>`
    select action from event where resource_type = 'app' and store_id = ${storeId} order by action`;
  assert.deepEqual(
    events.map(({ action }) => action),
    ['installed', 'store_erased', 'uninstalled'],
  );
});

test('switched off, no sandbox store is offered or created, and one that exists stays', async () => {
  const path = `/users/${off.adaId}`;
  const user = await off.call('GET', path, { token: off.account });
  assert.ok(!('svc:sandbox_store' in user.body._links));
  const refused = await off.call('POST', `${path}/sandbox_store`, { token: off.account });
  assert.deepEqual([refused.status, faultsOf(refused)], [403, ['- sandbox_stores_off']]);
  assert.doesNotMatch((await off.browser.open('/account/clients')).text, /sandbox/i);
  await off.sql`update store set sandbox_of = ${off.adaId} where id = ${off.alpha}`;
  assert.equal((await off.call('POST', `${path}/sandbox_store`, { token: off.account })).status, 200);
});

test('the browser shows no badge in other stores', async () => {
  const page = await createFiller(people.origin, browser).show(`/stores/${alpha}`);
  assert.doesNotMatch(await page.text(), /class="badge plain">Sandbox/);
});
