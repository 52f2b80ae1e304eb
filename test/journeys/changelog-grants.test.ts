/** The changelog of a store says who let which app in and who ended it: each once, with the deed, and nothing that opens anything. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { removeClient } from '#oauth/clients/change.ts';
import { openNative } from '../../src/publishing.ts';
import { ISSUER, PASSWORD } from '../security/oauth-server.ts';
import { hiddenIn, submit } from '../security/page-forms.ts';
import { startWithOwners, type App, type Entry, type Owner, type Tokens } from '../setup/owners.ts';

const owners = await startWithOwners();
const { call, sql, origin, platformToken: platform, newOwner, newApp, consent, letIn, entriesOf, grantOf } = owners;

/** Of an entry: what was done and who did it. */
const deedOf = (entry: Entry | undefined) =>
  entry && [entry.resource, entry.action, entry.actor, entry.user, entry.client];

test('who lets an app into a store stands in its changelog at once, with the app and without its code', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { code, access, refresh } = await letIn(owner, app);
  const [entry, ...others] = await entriesOf(owner.storeId);
  assert.deepEqual(others, []);
  assert.deepEqual(deedOf(entry), ['grant', 'given', 'user', owner.userId, null]);
  assert.equal(entry?.resource_id, await grantOf(owner));
  const { client_id: clientId, client_secret: secret } = app.credentials;
  const facts = { client_id: clientId, name: 'Gadget', user_id: owner.userId };
  assert.deepEqual([entry?.before, entry?.after], [null, { ...facts, scope: 'store_full_access' }]);
  const [{ all } = { all: '' }] = await sql<{ all: string }[]>`
    select string_agg(body, '') as all from event where store_id = ${owner.storeId}`;
  for (const opener of [code, access, refresh, secret]) assert.ok(!all.includes(opener.slice(-20)));
});

test('a webhook for the changelog is told of a grant', async () => {
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

/** Ends the one grant there is. */
type Ending = (owner: Owner, app: App, tokens: Tokens) => Promise<unknown>;
type Ended = [actor: string, user: (owner: Owner) => number | null, client: (app: App) => string | null];

const nobody = () => null;
const HALCYON: Ended = ['halcyon', nobody, nobody];
const PERSON: Ended = ['user', ({ userId }) => userId, nobody];
const PLATFORM: Ended = ['platform', nobody, () => owners.platform.client_id];

const endings: Record<string, { end: Ending; ended: Ended; rotates?: boolean }> = {
  'by its person on the account page': {
    end: async (owner) => {
      const action = `/account/connected/${await grantOf(owner)}/revoke`;
      const hidden = hiddenIn(await owner.browser.open('/account'), action);
      await owner.browser.post(action, hidden);
      await owner.browser.post(action, hidden);
    },
    ended: PERSON,
  },
  'by its person with a new password': {
    end: ({ browser }) =>
      submit(browser, '/account/password', '/account/password', {
        current: PASSWORD,
        password: 'another long password',
        end_grants: '1',
      }),
    ended: PERSON,
  },
  'by the platform over the API': {
    end: async (owner) => call('DELETE', `/grants/${await grantOf(owner)}`, { token: platform }),
    ended: PLATFORM,
  },
  'by its app over the API': {
    end: async (owner, _app, { access }) => call('DELETE', `/grants/${await grantOf(owner)}`, { token: access }),
    ended: ['app', ({ userId }) => userId, ({ credentials }) => credentials.client_id],
  },
  'by its app at /revoke': {
    end: async (_owner, { credentials }, { refresh }) => {
      for (let times = 0; times < 2; times += 1)
        await fetch(`${origin}/revoke`, {
          method: 'POST',
          body: new URLSearchParams({ token: refresh, ...credentials }),
        });
    },
    ended: ['app', nobody, ({ credentials }) => credentials.client_id],
  },
  'by Halcyon when its code comes again': {
    end: async (_owner, { credentials }, { code }) => {
      await owners.redeem(code, credentials);
      await owners.redeem(code, credentials);
    },
    ended: HALCYON,
  },
  'by Halcyon when a rotated token comes again': {
    end: async (_owner, { credentials }, { refresh }) => {
      const form = { grant_type: 'refresh_token', refresh_token: refresh, ...credentials };
      await owners.token(form);
      owners.wait(11_000);
      await owners.token(form);
      await owners.token(form);
    },
    ended: HALCYON,
    rotates: true,
  },
  'with its app, which the platform deletes': {
    end: (_owner, { credentials }) => call('DELETE', `/clients/${credentials.client_id}`, { token: platform }),
    ended: PLATFORM,
  },
  'with its app, which the operator deletes': {
    end: (_owner, { credentials }) => {
      const { changelog } = openNative({ baseUrl: ISSUER });
      const operator = { userId: null, origin: null, now: owners.now() };
      return removeClient({ sql, changelog }, credentials.client_id, operator);
    },
    ended: ['operator', nobody, nobody],
  },
};

for (const [how, { end, ended, rotates = false }] of Object.entries(endings))
  test(`a grant that ends ${how} is revoked in the changelog, once and by whom`, async () => {
    const [owner, app] = [await newOwner(), await newApp(undefined, rotates)];
    const tokens = await letIn(owner, app);
    const grant = await grantOf(owner);
    await end(owner, app, tokens);
    const [given, revoked, ...others] = await entriesOf(owner.storeId);
    assert.deepEqual(others, []);
    const [actor, user, client] = ended;
    assert.deepEqual(deedOf(revoked), ['grant', 'revoked', actor, user(owner), client(app)]);
    assert.equal(revoked?.resource_id, grant);
    assert.deepEqual([revoked?.before, revoked?.after], [given?.after, null]);
  });

test('an app that its owner deletes on its page ends in the stores of others, by its owner', async () => {
  const [owner, maker] = [await newOwner(), await newOwner()];
  const app = await newApp(maker.userId);
  await letIn(owner, app);
  const page = `/account/clients/${app.credentials.client_id}/delete`;
  assert.equal((await submit(maker.browser, page, page)).status, 303);
  const [, revoked, ...others] = await entriesOf(owner.storeId);
  assert.deepEqual(others, []);
  assert.deepEqual(deedOf(revoked), ['grant', 'revoked', 'user', maker.userId, null]);
});
