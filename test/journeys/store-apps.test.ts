/** The apps of a store: what its members see of them, who disconnects them, and that no other store's appear. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addMember } from '#stores/store.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createBrowser, REDIRECT, type Browser } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { hiddenIn } from '../security/page-forms.ts';
import { itemsOf } from '../setup/caller.ts';
import { HTML } from '../setup/form-filler.ts';

const people = await startWithPeople();
const { call, browser: ada, sql, adaId, bobId, alpha, beta, foreign, platformToken: platform } = people;
const bob = createBrowser(people.origin);
await bob.signIn(people.bob);

type Role = 'owner' | 'member' | null;

/** Makes the person a member of the store in this role, or not at all, without ending what the person let in. */
async function setRole(userId: number, role: Role, storeId = alpha): Promise<void> {
  if (role === null) await sql`delete from membership where store_id = ${storeId} and user_id = ${userId}`;
  else await addMember(sql, { storeId, userId, role, now: people.now() });
}

async function newClient(name: string) {
  const scopes = ['store_full_access', 'user_full_access', 'webhooks'];
  const details = { name, redirectUris: [REDIRECT], trusted: false, scopes, now: people.now() };
  const credentials = await createClient(sql, details);
  const { client_id: clientId } = credentials;
  const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;
  return { id: Number(row?.id), clientId, credentials };
}

/** Lets an app in, and returns its token and the id of the grant. */
async function connect(
  by: Browser,
  client: Awaited<ReturnType<typeof newClient>>,
  { scope = 'store_full_access', store = alpha } = {},
) {
  const asking = people.asking({ client_id: client.clientId, scope });
  const { location } = await by.consent(asking, { store: String(store) });
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  const token = String((await people.redeem(code, client.credentials)).body['access_token']);
  const [row] = await sql<{ id: number }[]>`select max(id) as id from access_grant where client = ${client.id}`;
  return { token, id: Number(row?.id) };
}

const GRANTS = `/stores/${alpha}/grants`;
const pathOf = (userId: number, id: number, storeId = alpha) => `/stores/${storeId}/members/${userId}/grants/${id}`;
const works = async (token: string): Promise<boolean> => (await call('GET', '/', { token })).status === 200;
const isRevoked = async (id: number): Promise<boolean> => {
  const [row] = await sql<{ revoked: boolean }[]>`
    select date_revoked is not null as revoked from access_grant where id = ${id}`;
  assert.ok(row);
  return row.revoked;
};
const textOf = (markup: string): string => markup.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

/** Returns the entries of an app on the page, in words. */
async function entriesOf(name: string, reader = ada): Promise<string[]> {
  const { text } = await reader.open(`${GRANTS}?limit=300`, HTML);
  return text
    .split('<li>')
    .filter((entry) => entry.includes(`>${name}</a>`))
    .map(textOf);
}

const hook = { name: 'Sync', format: 'json', encryption_key: 'a key', events: ['transaction/created'] };

test('an owner sees what another member let in, with its webhooks, and disconnects it', async () => {
  await setRole(bobId, 'member');
  const client = await newClient('Bookkeeper');
  const declared = { webhook_url: 'https://hooks.example.com/declared' };
  await call('PATCH', `/clients/${client.clientId}`, { token: platform, body: declared });
  const { token, id } = await connect(bob, client, { scope: 'webhooks' });
  const made = await call('POST', `/stores/${alpha}/webhooks`, { token, body: hook });
  const webhook = `/webhooks/${String(made.body['id'])}`;
  const [entry = ''] = await entriesOf('Bookkeeper');
  for (const part of [people.bob, 'Sync', 'transaction/created', 'declared by the app', 'app/uninstalled'])
    assert.ok(entry.includes(part), `${part}: ${entry}`);
  assert.match(entry, /create and change webhooks.*1 webhook that it created is disabled/);
  const { body: read } = await call('GET', pathOf(bobId, id), { token: platform });
  assert.deepEqual(
    ['user_id', 'user_email', 'scope', 'store_id', 'webhooks_total', 'webhooks_active'].map((name) => read[name]),
    [bobId, people.bob, 'webhooks', alpha, 1, 1],
  );
  const linked = [read._links['svc:webhook']].flat().map((link) => link?.title);
  assert.deepEqual(linked, ['App events of Bookkeeper', 'Sync']);

  const action = pathOf(bobId, id);
  const hidden = hiddenIn(await ada.open(GRANTS, HTML), action);
  const ended = await ada.post(action, hidden, HTML);
  assert.deepEqual([ended.status, ended.location], [303, `${GRANTS}?done=disconnected`]);
  assert.match((await ada.open(`${GRANTS}?done=disconnected`, HTML)).text, /role="status">App disconnected/);
  assert.equal(await works(token), false);
  assert.equal((await call('GET', webhook, { token: platform })).body['inactive_reason'], 'access_ended');
  const events = await sql<{ body: string }[]>`
    select body from event where store_id = ${alpha} and resource_type in ('app', 'changelog') order by id desc limit 3`;
  assert.ok(
    events.some(({ body }) => /"scope":null,"previous_scope":"webhooks"/.test(body)),
    'app/uninstalled',
  );
  assert.ok(events.some(({ body }) => body.includes(`"user":${adaId},`) && body.includes('"resource":"grant"')));
  assert.deepEqual(await entriesOf('Bookkeeper'), []);
  // A second click is no error.
  assert.equal((await ada.post(action, hidden, HTML)).status, 303);
});

test('an app that another member or the account lets in, too, keeps that access, and the page says so', async () => {
  await setRole(bobId, 'member');
  const client = await newClient('Shared');
  const mine = await connect(ada, client);
  const theirs = await connect(bob, client);
  const account = await connect(bob, client, { scope: 'user_full_access' });
  const webhook = await call('POST', `/stores/${alpha}/webhooks`, { token: theirs.token, body: hook });
  const entries = await entriesOf('Shared');
  assert.equal(entries.length, 3);
  assert.equal(entries.filter((entry) => entry.includes('1 webhook that it created stays active')).length, 1);
  for (const entry of entries) assert.doesNotMatch(entry, /disabled/);
  for (const [id, userId] of [
    [mine.id, adaId],
    [theirs.id, bobId],
  ] as const) {
    const action = pathOf(userId, id);
    const { location } = await ada.post(action, hiddenIn(await ada.open(GRANTS, HTML), action), HTML);
    assert.equal(location, `${GRANTS}?done=disconnected_partly`);
  }
  assert.deepEqual(await Promise.all([mine, theirs, account].map(({ token }) => works(token))), [false, false, true]);
  const { body } = await call('GET', `/webhooks/${String(webhook.body['id'])}`, { token: platform });
  assert.equal(body['is_active'], '1');
  const refused = await call('DELETE', pathOf(bobId, account.id), { token: platform });
  assert.deepEqual([refused.status, JSON.stringify(refused.body).includes('access_of_account')], [409, true]);
});

test('an access is ended by an owner, by the member who gave it, by the platform, and by no one else', async () => {
  const carolId = adaId;
  const persons = [
    { who: 'the person who connected it', id: bobId, browser: bob },
    { who: 'another person', id: carolId, browser: ada },
  ];
  const client = await newClient('Matrix');
  for (const scope of ['store_full_access', 'webhooks']) {
    await setRole(bobId, 'owner');
    await setRole(carolId, 'owner');
    const { token, id } = await connect(bob, client, { scope });
    const neighbour = (await connect(ada, await newClient('Neighbour'))).token;
    const address = pathOf(bobId, id);
    const again = () => sql`update access_grant set date_revoked = null where id = ${id}`;
    // As owners both get a form, whose nonce stays valid when they lose the role.
    const forms = new Map<Browser, Record<string, string>>();
    for (const { browser } of persons) forms.set(browser, hiddenIn(await browser.open(GRANTS, HTML), address));
    let attempts = 0;
    for (const role of ['owner', 'member', null] as const)
      for (const { who, id: userId, browser } of persons) {
        // Bob's access exists only while Bob is a member.
        await setRole(bobId, 'member');
        await setRole(carolId, 'member');
        await setRole(userId, role);
        const may = role === 'owner' || (role === 'member' && userId === bobId);
        const where = `${who} as ${String(role)}, ${scope}`;
        const page = await browser.open(GRANTS, HTML);
        assert.equal(page.status, role === null ? 404 : 200, where);
        assert.equal(page.text.includes(`action="${address}"`), may, where);
        const { status } = await browser.post(address, forms.get(browser) ?? {}, HTML);
        assert.equal(await isRevoked(id), may, where);
        // A person without the store is led away as after a second click.
        if (role !== null) assert.equal(status, may ? 303 : 403, where);
        await again();
        attempts += 1;
      }
    assert.equal(attempts, 6);
    await setRole(bobId, 'member');
    await setRole(carolId, 'owner');
    const tokens = { 'the app itself': token, 'another app': neighbour, 'an app of an account': people.account };
    for (const [who, of] of Object.entries(tokens)) {
      assert.equal((await call('DELETE', address, { token: of })).status, 403, who);
      assert.equal(await isRevoked(id), false, who);
    }
    // Below another store, another member or another id, it is no grant.
    for (const path of [pathOf(bobId, id, beta), pathOf(bobId, id, foreign), pathOf(adaId, id), pathOf(bobId, id + 1)])
      for (const method of ['GET', 'DELETE']) assert.equal((await call(method, path, { token: platform })).status, 404);
    assert.equal(await isRevoked(id), false);
    assert.equal((await call('DELETE', address, { token: platform })).status, 204);
    assert.equal(await isRevoked(id), true);
    assert.equal((await call('GET', address, { token: platform })).status, 404);
  }
});

test('each store lists the access that its members gave to it or to their accounts, and an app sees its own', async () => {
  const clients = [await newClient('First'), await newClient('Second')];
  const members: readonly [userId: number, storeId: number][] = [
    [adaId, alpha],
    [adaId, beta],
    [bobId, alpha],
    [bobId, foreign],
  ];
  for (const [userId, storeId] of members) await setRole(userId, 'member', storeId);
  let id = 3_000_000;
  const grants: { id: number; client: number; userId: number; storeId: number | null; isLive: boolean }[] = [];
  for (const client of clients)
    for (const userId of [adaId, bobId])
      for (const storeId of [alpha, beta, foreign, null])
        for (const isLive of [true, false]) grants.push({ id: (id += 1), client: client.id, userId, storeId, isLive });
  for (const one of grants)
    await sql`
      insert into access_grant (id, client, user_id, store_id, scope, date_created, date_revoked)
      values (${one.id}, ${one.client}, ${one.userId}, ${one.storeId},
        ${one.storeId === null ? 'user_full_access' : 'store_full_access'}, ${people.now()}, ${one.isLive ? null : people.now()})`;
  const shown = (storeId: number, client: number) =>
    grants
      .filter((one) => one.isLive && one.client === client && (one.storeId ?? storeId) === storeId)
      .filter((one) => members.some(([userId, of]) => of === storeId && userId === one.userId))
      .map((one) => one.id);
  for (const storeId of [alpha, beta, foreign]) {
    const ids = clients.map((one) => one.clientId).join(',');
    const path = `/stores/${storeId}/grants?limit=300&client_id:in=${ids}`;
    const listed = itemsOf(await call('GET', path, { token: platform }), 'grants').map((one) => one['id']);
    assert.deepEqual(
      listed,
      clients.flatMap(({ id: client }) => shown(storeId, client)).toSorted((a, b) => a - b),
    );
  }
  const [first] = clients;
  assert.ok(first);
  const { token } = await connect(bob, first);
  const own = itemsOf(await call('GET', `${GRANTS}?limit=300`, { token }), 'grants');
  assert.ok(own.length > 0);
  assert.deepEqual(new Set(own.map((one) => one['client_id'])), new Set([first.clientId]));
  assert.deepEqual(new Set(own.map((one) => one['user_email'])), new Set([null]));
  const other = grants.find((one) => one.client !== first.id && one.storeId === alpha && one.isLive);
  assert.ok(other);
  assert.equal((await call('GET', pathOf(other.userId, other.id), { token })).status, 404);
  assert.equal((await call('GET', `/stores/${foreign}/grants`, { token })).status, 404);
});
