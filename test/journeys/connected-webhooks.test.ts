/** The webhooks of a connected app, on the account page and in the API, and that disconnecting the app does what the page says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember } from '#stores/store.ts';
import { createBrowser, REDIRECT } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { hiddenIn } from '../security/page-forms.ts';
import { itemsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { call, browser, sql, adaId, bobId, alpha, beta, platformToken: platform } = people;
await addMember(sql, { storeId: alpha, userId: bobId, role: 'member', now: people.now() });
const bob = createBrowser(people.origin);
await bob.signIn(people.bob);

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
  const read = await call('GET', `/grants/${String(grant?.['id'])}`, { token });
  assert.deepEqual([read.body['webhooks_total'], read.body['webhooks_active']], [3, 2]);
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
