/** The webhooks of an app: on the page of its developer, and on the account page of a person who uses the app, until the app is disconnected. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember } from '#stores/store.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { newApp, hiddenIn } from '../security/page-forms.ts';
import { createBrowser, REDIRECT } from '../security/oauth-server.ts';
import { itemsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { sql, browser, call, adaId, bobId, alpha, beta, platformToken: platform } = people;
const { clientId, path } = await newApp(browser, { name: 'Shipping' });
const [app] = await sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;

/** Creates a webhook of the app in a store, with attempts of the last hour by outcome. */
async function createWebhook(
  storeId: number,
  name: string,
  attempts: Readonly<Record<string, number>>,
): Promise<number> {
  const made = await people.call('POST', `/stores/${storeId}/webhooks`, {
    token: people.account,
    body: { name, format: 'json', encryption_key: 'a key of mine' },
  });
  const id = Number(made.body['id']);
  await sql`update webhook set client = ${app?.id ?? 0} where id = ${id}`;
  await sql`insert into access_grant (id, client, user_id, store_id, scope, date_created)
    values (${1_000_000 + id}, ${app?.id ?? 0}, ${people.adaId}, ${storeId}, 'store_full_access', ${people.now()})`;
  for (const [outcome, count] of Object.entries(attempts))
    await sql`insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
      values (${id % 256}, ${id}, date_trunc('hour', ${people.now()}::timestamptz), ${outcome}, ${count}, '{}')`;
  return id;
}

async function read(query = '') {
  const { status, text } = await browser.open(path + query);
  assert.equal(status, 200);
  return text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
}

await createWebhook(people.alpha, 'Parcels', { delivered: 98, refused: 1 });
const failing = await createWebhook(people.beta, 'Labels', { delivered: 1, refused: 2, 'timed_out:answer': 5 });
await sql`insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
  values (${failing % 256}, ${failing}, 0, 7, ${people.now()})`;

await addMember(sql, { storeId: alpha, userId: bobId, role: 'member', now: people.now() });
const bob = createBrowser(people.origin);
await bob.signIn(people.bob);

// Of a developer

test('the page sums up the webhooks of all stores, and lists failing ones first with their most frequent error', async () => {
  const page = await read();
  assert.match(page, /2 webhooks in 2 stores: 1 is failing\. 99 of 107 attempts in the last 24 hours succeeded\./);
  assert.match(page, /Failed attempts: timed_out:answer 5 refused 3/);
  assert.match(page, /Beta Labels Failing 1 7 timed_out:answer Alpha Parcels Delivering 98 1 refused/);
});

test('a store is found by a part of its name, in which no character is a wildcard', async () => {
  const found = await read('?store=lph');
  assert.match(found, /Alpha Parcels/);
  assert.doesNotMatch(found, /Beta Labels/);
  assert.match(found, /2 webhooks in 2 stores/, 'the sums are of all stores');
  assert.match(await read('?store=%25'), /No store with this name/);
});

test('another app of the same person shows none of them, and says what this place will show', async () => {
  const other = await newApp(browser, { name: 'Other' });
  assert.match((await browser.open(other.path)).text, /has created no webhooks yet/);
});

test('after the end of its access to a store the app shows its webhooks there no longer', async () => {
  const grant = sql`client = ${app?.id ?? 0} and store_id = ${people.beta}`;
  await sql`update access_grant set date_revoked = ${people.now()} where ${grant}`;
  const page = await read();
  assert.match(page, /1 webhook in 1 store: none is failing/);
  assert.doesNotMatch(page, /Labels|Beta/);
});

// Of a connected app

type Client = Awaited<ReturnType<typeof createClient>>;
const register = (name: string): Promise<Client> =>
  createClient(sql, { name, redirectUris: [REDIRECT], trusted: false, now: people.now() });

/** Gives the app access, and returns its token. */
async function connect(
  client: Client,
  { by = browser, scope = 'store_full_access', store = alpha } = {},
): Promise<string> {
  const asking = people.asking({ client_id: client.client_id, scope });
  const { location } = await by.consent(asking, { store: String(store) });
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  return String((await people.redeem(code, client)).body['access_token']);
}
async function addWebhook(token: string, isActive = true, store = alpha): Promise<string> {
  const body = { name: 'Sync', format: 'json', encryption_key: 'a key', is_active: isActive ? '1' : '0' };
  const { status, body: made } = await call('POST', `/stores/${store}/webhooks`, { token, body });
  assert.equal(status, 201);
  return `/webhooks/${String(made['id'])}`;
}
const isActive = async (webhook: string): Promise<boolean> =>
  (await call('GET', webhook, { token: platform })).body['is_active'] === '1';

/** Returns the entries of an app in the account page, in words, by the place of their access. */
async function entriesOf(name: string): Promise<string[]> {
  const [text = ''] = (await browser.open('/account')).text.split('id="activity"');
  return text
    .split('<li>')
    .filter((entry) => entry.includes(`<strong>${name}</strong>`))
    .map((entry) => entry.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' '));
}
async function grantsOf({ client_id }: Client) {
  const query = `limit=300&client_id=${client_id}&order=store_id`;
  return itemsOf(await call('GET', `/users/${adaId}/grants?${query}`, { token: platform }), 'grants');
}
async function disconnect(grant: unknown): Promise<void> {
  const action = `/account/connected/${String(grant)}/revoke`;
  assert.equal((await browser.post(action, hiddenIn(await browser.open('/account'), action))).status, 303);
}

test('an app without webhooks says so', async () => {
  const client = await register('Quiet');
  await connect(client);
  const [entry] = await entriesOf('Quiet');
  assert.match(entry ?? '', /Its webhooks None .*access ends at once, and so do its tokens\. It can ask/);
  const [grant] = await grantsOf(client);
  assert.deepEqual([grant?.['webhooks_total'], grant?.['webhooks_active']], [0, 0]);
});

test('the active webhooks of an app are counted, and disconnecting it disables them', async () => {
  const client = await register('Busy');
  const token = await connect(client);
  const webhooks = [await addWebhook(token), await addWebhook(token), await addWebhook(token, false)];
  const [entry] = await entriesOf('Busy');
  assert.match(entry ?? '', /Its webhooks 3, of which 2 active .*2 webhooks that it created are disabled/);
  const [grant] = await grantsOf(client);
  assert.deepEqual([grant?.['webhooks_total'], grant?.['webhooks_active']], [3, 2]);
  const shown = await call('GET', `/grants/${String(grant?.['id'])}`, { token });
  assert.deepEqual([shown.body['webhooks_total'], shown.body['webhooks_active']], [3, 2]);
  await disconnect(grant?.['id']);
  for (const webhook of webhooks) assert.equal(await isActive(webhook), false);
});

test('webhooks that the app created for another person or in another store are not counted', async () => {
  const client = await register('Shared');
  await connect(client);
  await addWebhook(await connect(client, { by: bob }));
  await addWebhook(await connect(client, { store: beta }), true, beta);
  const counts = new Map((await grantsOf(client)).map((grant) => [grant['store_id'], grant['webhooks_total']]));
  assert.deepEqual([counts.get(alpha), counts.get(beta)], [0, 1]);
});

test('webhooks stay active as long as the app has another access to their store, and the page says so', async () => {
  const client = await register('Twice');
  const webhook = await addWebhook(await connect(client));
  await connect(client, { scope: 'user_full_access' });
  const entries = await entriesOf('Twice');
  assert.equal(entries.length, 2);
  for (const entry of entries) {
    assert.match(
      entry,
      /Its webhooks 1, active .*1 webhook that it created stays active, because it has another access/,
    );
    assert.doesNotMatch(entry, /disabled/);
  }
  const [ofStore, ofAccount] = (await grantsOf(client)).toSorted((one) => (one['store_id'] === null ? 1 : -1));
  await disconnect(ofStore?.['id']);
  assert.equal(await isActive(webhook), true);
  assert.match((await entriesOf('Twice')).join(' '), /1 webhook that it created is disabled/);
  await disconnect(ofAccount?.['id']);
  assert.equal(await isActive(webhook), false);
});
