/** The webhooks that an app created are disabled when its access to the store ends, however it ends, and only then. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPERATOR } from '#changelog/changelog.ts';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { ISSUER } from '../security/oauth-server.ts';
import { submit } from '../security/page-forms.ts';
import { grantEndings, type GrantEnding } from '../setup/grant-revocations.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startWithOwners, type App, type Owner } from '../setup/owners.ts';
import { until } from '../setup/until.ts';

const owners = await startWithOwners();
const { call, sql, origin, platformToken: platform, newOwner, newApp, letIn, entriesOf } = owners;

async function addWebhook(token: string, storeId: number): Promise<number> {
  const body = {
    name: 'Hook',
    url: 'https://hooks.example.com/',
    format: 'json',
    encryption_key: 'a key',
    events: ['transaction/created'],
  };
  const made = await call('POST', `/stores/${storeId}/webhooks`, { token, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return Number(made.body['id']);
}
async function stateOf(id: number) {
  const { body } = await call('GET', `/webhooks/${id}`, { token: platform });
  return [body['is_active'], body['inactive_reason']];
}
const revoke = (token: string, credentials: App['credentials']): Promise<unknown> =>
  fetch(`${origin}/revoke`, { method: 'POST', body: new URLSearchParams({ token, ...credentials }) });
const ON = ['1', null];
const OFF = ['0', 'access_ended'];

let events = 0;
/** Publishes an event of the store and returns the ids of the webhooks that it is delivered to. */
async function publish(storeId: number, token = platform): Promise<number[]> {
  const body = { event: 'transaction/created', resource: { id: (events += 1) } };
  const published = await call('POST', `/stores/${storeId}/events`, { token, body });
  assert.equal(published.status, 201);
  const rows = await sql<{ id: number }[]>`
    select d.webhook_id as id from delivery d join event e on e.shard = d.shard and e.id = d.event_id
    where d.store_id = ${storeId} and e.resource_id = ${String(events)} order by d.webhook_id`;
  return rows.map(({ id }) => id);
}

/** The owner of the apps. */
const maker = await newOwner();
const endings: Record<string, GrantEnding['end']> = {
  ...Object.fromEntries(Object.entries(grantEndings(owners)).map(([how, { end }]) => [how, end])),
  'because its person left the store': ({ storeId, userId }) =>
    call('DELETE', `/stores/${storeId}/members/${userId}`, { token: platform }),
  'because its owner deleted the app': async (_owner, { credentials }) => {
    const page = `/account/clients/${credentials.client_id}/delete`;
    await submit(maker.browser, page, page);
  },
  'because its person was erased': ({ userId }) => call('DELETE', `/users/${userId}`, { token: platform }),
};
const rotating = new Set(Object.entries(grantEndings(owners)).flatMap(([how, { rotates }]) => (rotates ? [how] : [])));

for (const [how, end] of Object.entries(endings))
  test(`when access ends ${how}, the webhooks created under it are disabled in the same transaction`, async () => {
    const [owner, other] = [await newOwner(), await newOwner()];
    const { storeId } = owner;
    await call('POST', `/stores/${storeId}/members`, { token: platform, body: { user: other.userId, role: 'owner' } });
    const [app, otherApp] = [await newApp(maker.userId, rotating.has(how)), await newApp()];
    const tokens = await letIn(owner, app);
    const ended = await addWebhook(tokens.access, storeId);
    // One of another person's app in the same store, and one of no app.
    const others = [
      await addWebhook((await letIn(other, otherApp)).access, storeId),
      await addWebhook(platform, storeId),
    ];
    assert.deepEqual(await publish(storeId), [ended, ...others]);
    await end(owner, app, tokens);
    assert.deepEqual(await stateOf(ended), OFF);
    for (const id of others) assert.deepEqual(await stateOf(id), ON);
    assert.deepEqual(await publish(storeId), others);
    const entries = (await entriesOf(storeId)).filter(({ action }) => action === 'deactivated');
    assert.deepEqual(
      entries.map(({ resource, resource_id: id, actor, before, after }) => ({ resource, id, actor, before, after })),
      [
        {
          resource: 'webhook',
          id: ended,
          actor: 'halcyon',
          before: { is_active: '1', inactive_reason: null },
          after: { is_active: '0', inactive_reason: 'access_ended' },
        },
      ],
    );
  });

test('while another grant of the same person gives the app access to the store, its webhooks stay enabled', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const first = await letIn(owner, app);
  const webhook = await addWebhook(first.access, owner.storeId);
  const second = await letIn(owner, app, { scope: 'user_full_access' });
  await revoke(first.refresh, app.credentials);
  assert.deepEqual(await stateOf(webhook), ON);
  await revoke(second.refresh, app.credentials);
  assert.deepEqual(await stateOf(webhook), OFF);
});

test('when a person with an app that has access to the whole account leaves a store, the webhooks there are disabled', async () => {
  const [owner, other, app] = [await newOwner(), await newOwner(), await newApp()];
  const member = { user: owner.userId, role: 'member' };
  await call('POST', `/stores/${other.storeId}/members`, { token: platform, body: member });
  const { access } = await letIn(owner, app, { scope: 'user_full_access' });
  const [here, there] = [await addWebhook(access, owner.storeId), await addWebhook(access, other.storeId)];
  await call('DELETE', `/stores/${other.storeId}/members/${owner.userId}`, { token: platform });
  assert.deepEqual([await stateOf(here), await stateOf(there)], [ON, OFF]);
});

test('of the limited scopes only webhooks keeps the webhooks of the app enabled', async () => {
  for (const [scope, after] of [
    ['webhooks', ON],
    ['store_read events_read', OFF],
  ] as const) {
    const [owner, app] = [await newOwner(), await newApp()];
    await sql`
      update client set scopes = array['store_full_access', 'store_read', 'events_read', 'webhooks']
      where client_id = ${app.credentials.client_id}`;
    const full = await letIn(owner, app);
    const webhook = await addWebhook(full.access, owner.storeId);
    await letIn(owner, app, { scope });
    await revoke(full.refresh, app.credentials);
    assert.deepEqual(await stateOf(webhook), after, scope);
    const query = owners.asking({ client_id: app.credentials.client_id, scope });
    const { text } = await owner.browser.open(`/authorize?${new URLSearchParams(query).toString()}`);
    assert.doesNotMatch(text, /name="resume"/);
    const on = await call('PATCH', `/webhooks/${webhook}`, { token: platform, body: { is_active: '1' } });
    assert.equal(on.status, after === ON ? 200 : 409);
  }
});

/** A webhook that was disabled because its person disconnected the app. */
async function stopped(): Promise<{ owner: Owner; app: App; webhook: number }> {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access, refresh } = await letIn(owner, app);
  const webhook = await addWebhook(access, owner.storeId);
  await revoke(refresh, app.credentials);
  return { owner, app, webhook };
}

test('a webhook whose app has no access cannot be enabled', async () => {
  const { owner, webhook } = await stopped();
  const on = { is_active: '1' };
  for (const [method, body] of [
    ['PATCH', on],
    ['PUT', { name: 'Hook', url: 'https://hooks.example.com/', format: 'json', encryption_key: 'a key' }],
  ] as const) {
    const { status, body: error } = await call(method, `/webhooks/${webhook}`, { token: platform, body });
    assert.deepEqual([status, error['code'] ?? JSON.stringify(error).includes('access_ended')], [409, true]);
  }
  assert.deepEqual(await publish(owner.storeId), []);
  const renamed = await call('PATCH', `/webhooks/${webhook}`, { token: platform, body: { name: 'Renamed' } });
  assert.equal(renamed.status, 200);
  assert.deepEqual(await stateOf(webhook), OFF);
});

test('a new grant enables no webhook by itself, but allows enabling them', async () => {
  const { owner, app, webhook } = await stopped();
  const page = await owner.browser.open(
    `/authorize?${new URLSearchParams(owners.asking({ client_id: app.credentials.client_id })).toString()}`,
  );
  assert.match(page.text, /name="resume"/);
  await letIn(owner, app);
  assert.deepEqual(await stateOf(webhook), OFF);
  const patched = await call('PATCH', `/webhooks/${webhook}`, { token: platform, body: { is_active: '1' } });
  assert.deepEqual([patched.status, ...(await stateOf(webhook))], [200, ...ON]);
});

test('the consent page enables the webhooks again if its person asks for that, and they belong to that person from then on', async () => {
  const { owner, app, webhook } = await stopped();
  const colleague = await newOwner();
  const member = { user: colleague.userId, role: 'member' };
  await call('POST', `/stores/${owner.storeId}/members`, { token: platform, body: member });
  const query = owners.asking({ client_id: app.credentials.client_id });
  const { location } = await colleague.browser.consent(query, { store: String(owner.storeId), resume: '1' });
  assert.ok(location);
  assert.deepEqual(await publish(owner.storeId), [webhook]);
  const last = (await entriesOf(owner.storeId)).at(-1);
  assert.deepEqual(
    [last?.action, last?.actor, last?.user, last?.after],
    ['changed', 'user', colleague.userId, { is_active: '1', inactive_reason: null }],
  );
  // The owner's access no longer matters.
  await call('DELETE', `/stores/${owner.storeId}/members/${owner.userId}`, { token: platform });
  assert.deepEqual(await stateOf(webhook), ON);
  await call('DELETE', `/stores/${owner.storeId}/members/${colleague.userId}`, { token: platform });
  assert.deepEqual(await stateOf(webhook), OFF);
});

test('no active webhook is left when access ends while the app creates or enables a webhook', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const webhook = await addWebhook(access, owner.storeId);
  await call('PATCH', `/webhooks/${webhook}`, { token: access, body: { is_active: '0' } });
  const body = { name: 'Late', format: 'json', encryption_key: 'k' };
  const requests = await sql.begin(async (tx) => {
    const which = { userId: owner.userId, actor: OPERATOR, origin: null, now: owners.now() };
    await revokeGrantsOf(tx, openInternalEvents({ baseUrl: ISSUER }), which);
    const begun = [
      call('POST', `/stores/${owner.storeId}/webhooks`, { token: access, body }),
      call('PATCH', `/webhooks/${webhook}`, { token: access, body: { is_active: '1' } }),
    ];
    await until(
      () => waitingForLocks(sql),
      (count) => count === 2,
    );
    return { begun };
  });
  const statuses = (await Promise.all(requests.begun)).map(({ status }) => status);
  assert.deepEqual(statuses, [404, 409]);
  assert.deepEqual(await publish(owner.storeId), []);
});

// Runs last, because it lets the tokens of all other tests expire.
test('an expired access token changes nothing', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const webhook = await addWebhook(access, owner.storeId);
  owners.wait(3 * 3_600_000);
  assert.equal((await call('GET', `/webhooks/${webhook}`, { token: access })).status, 401);
  const fresh = await owners.token({ grant_type: 'client_credentials', scope: 'platform', ...owners.platform });
  assert.deepEqual(await publish(owner.storeId, String(fresh.body['access_token'])), [webhook]);
});
