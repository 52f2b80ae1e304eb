/** The changelog of a store names each grant that is given or revoked, once, with its actor, and contains no secret. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { submit } from '../security/page-forms.ts';
import { grantEndings } from '../setup/grant-revocations.ts';
import { startWithOwners, type Entry } from '../setup/owners.ts';

const owners = await startWithOwners();
const { call, sql, origin, newOwner, newApp, consent, letIn, entriesOf, grantOf } = owners;

/** Returns the action of an entry and its actor. */
const actionOf = (entry: Entry | undefined) =>
  entry && [entry.resource, entry.action, entry.actor, entry.user, entry.client];

test('a grant is in the changelog of its store at once, with the app and without its code', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { code, access, refresh } = await letIn(owner, app);
  const [entry, ...others] = await entriesOf(owner.storeId);
  assert.deepEqual(others, []);
  assert.deepEqual(actionOf(entry), ['grant', 'given', 'user', owner.userId, null]);
  assert.equal(entry?.resource_id, await grantOf(owner));
  const { client_id: clientId, client_secret: secret } = app.credentials;
  const facts = { client_id: clientId, name: 'Gadget', user_id: owner.userId };
  assert.deepEqual([entry?.before, entry?.after], [null, { ...facts, scope: 'store_full_access' }]);
  const [{ all } = { all: '' }] = await sql<{ all: string }[]>`
    select string_agg(body, '') as all from event where store_id = ${owner.storeId}`;
  for (const opener of [code, access, refresh, secret]) assert.ok(!all.includes(opener.slice(-20)));
});

test('a webhook for the changelog receives the entry of a grant', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access: token } = await letIn(owner, app);
  const url = 'https://hooks.example.com/';
  const hook = { name: 'Log', url, format: 'json', encryption_key: 'a key', events: ['changelog/created'] };
  const made = await call('POST', `/stores/${owner.storeId}/webhooks`, { token, body: hook });
  assert.equal(made.status, 201);
  await consent(owner, app);
  const waiting = await sql<{ action: string }[]>`
    select e.body::json->>'action' as action from delivery d join event e on e.shard = d.shard and e.id = d.event_id
    where d.store_id = ${owner.storeId} and e.body::json->>'resource' = 'grant'`;
  assert.deepEqual(
    waiting.map(({ action }) => action),
    ['given'],
  );
});

test('access to a whole account is in no changelog, neither when it is given nor when it ends', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { refresh } = await letIn(owner, app, { scope: 'user_full_access' });
  await fetch(`${origin}/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ token: refresh, ...app.credentials }),
  });
  assert.deepEqual(await entriesOf(owner.storeId), []);
});

for (const [how, { end, ended, rotates = false }] of Object.entries(grantEndings(owners)))
  test(`a grant that ends ${how} is revoked in the changelog, once and with its actor`, async () => {
    const [owner, app] = [await newOwner(), await newApp(undefined, rotates)];
    const tokens = await letIn(owner, app);
    const grant = await grantOf(owner);
    await end(owner, app, tokens);
    const [given, revoked, ...others] = await entriesOf(owner.storeId);
    assert.deepEqual(others, []);
    const [actor, user, client] = ended;
    assert.deepEqual(actionOf(revoked), ['grant', 'revoked', actor, user(owner), client(app)]);
    assert.equal(revoked?.resource_id, grant);
    assert.deepEqual([revoked?.before, revoked?.after], [given?.after, null]);
  });

test('if its owner deletes an app on its page, the changelogs of other stores show the end of its grants, by that owner', async () => {
  const [owner, maker] = [await newOwner(), await newOwner()];
  const app = await newApp(maker.userId);
  await letIn(owner, app);
  const page = `/account/clients/${app.credentials.client_id}/delete`;
  assert.equal((await submit(maker.browser, page, page)).status, 303);
  const [, revoked, ...others] = await entriesOf(owner.storeId);
  assert.deepEqual(others, []);
  assert.deepEqual(actionOf(revoked), ['grant', 'revoked', 'user', maker.userId, null]);
});
