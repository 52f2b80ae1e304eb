/**
 * Events of a store that an app declares reach it only while the scope of its grants in this store covers them: for each scope and each
 * resource, and however the scope shrinks or the access ends.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resourceTypes } from '#catalog/catalog.ts';
import { covers } from '#webhooks/app-access/declared.ts';
import { addMember } from '#stores/store.ts';
import { grantEndings } from '../setup/grant-revocations.ts';
import { startWithOwners, type App, type Owner, type Tokens } from '../setup/owners.ts';
import { changeHome, storesOf } from '../setup/suite-map.ts';
import { REDIRECT } from './oauth-server.ts';
import { suspending } from './operators.ts';

const owners = await startWithOwners();
const { call, sql, platformToken: platform, newOwner, letIn, grantOf } = owners;
const { suspend, resume } = await suspending(owners);
const maker = await newOwner();

const PUBLISHED = ['transaction', 'customer', 'subscription', 'transaction_log'];
const EVENTS = PUBLISHED.map((type) => `${type}/created`);
const OF_TYPES = PUBLISHED.map((type) => `${type}:read`);
const OF_ALL = ['store_read', 'webhooks', 'events_read'];
const FULL = ['store_full_access', 'user_full_access'];

let apps = 0;
async function newApp(more: Record<string, unknown> = {}): Promise<App> {
  const body = {
    name: `Gadget ${(apps += 1)}`,
    redirect_uris: [REDIRECT],
    scopes: [...OF_TYPES, ...OF_ALL, ...FULL],
    webhook_url: 'https://app.example.com/events',
    webhook_events: EVENTS,
    ...more,
  };
  const made = await call('POST', '/clients', { token: platform, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const credentials = { client_id: String(made.body['client_id']), client_secret: String(made.body['client_secret']) };
  const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${credentials.client_id}`;
  return { id: row?.id ?? NaN, credentials };
}

let ids = 0;
/** Publishes an event of each resource, and returns the resources of those that have a pending delivery to the app. */
async function delivered({ storeId }: Owner, app: App): Promise<string[]> {
  const from = (ids += 1);
  const body = EVENTS.map((event) => ({ event, resource: { id: from } }));
  const { status } = await call('POST', `/stores/${storeId}/events`, { token: platform, body });
  assert.equal(status, 200);
  const rows = await storesOf(sql)<{ type: string }[]>`
    select e.resource_type as type from event e
    join delivery d on d.shard = e.shard and d.event_id = e.id
    join webhook w on w.shard = d.shard and w.id = d.webhook_id
    where e.store_id = ${storeId} and e.resource_id = ${String(from)} and w.client = ${app.id}`;
  return rows.map(({ type }) => type).toSorted((a, b) => PUBLISHED.indexOf(a) - PUBLISHED.indexOf(b));
}

/** Returns the number of deliveries of events of the store that a worker would send to the app. */
async function pending({ storeId }: Owner, app: App): Promise<number> {
  const [row] = await storesOf(sql)<{ n: number }[]>`
    select count(*) as n from delivery d join webhook w on w.shard = d.shard and w.id = d.webhook_id and w.epoch = d.epoch
    where w.store_id = ${storeId} and w.client = ${app.id} and w.event_resource <> 'app' and w.is_active`;
  return row?.n ?? NaN;
}

/** Makes a person a member of the store of another one. */
const joined = ({ storeId }: Owner, { userId }: Owner): Promise<unknown> =>
  changeHome(sql, (home) => addMember(home, { storeId, userId, role: 'member', now: owners.now() }));

const revoke = (token: string, { credentials }: App): Promise<unknown> =>
  fetch(`${owners.origin}/revoke`, { method: 'POST', body: new URLSearchParams({ token, ...credentials }) });

/** The resources whose events each scope covers. */
const COVERED: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(PUBLISHED.map((type) => [`${type}:read`, [type]])),
  ...Object.fromEntries([...OF_ALL, ...FULL].map((scope) => [scope, PUBLISHED])),
};

for (const [scope, types] of Object.entries(COVERED))
  test(`the scope ${scope} lets the app receive the events of ${types.join(', ')} only, until it ends`, async () => {
    const [owner, app] = [await newOwner(), await newApp()];
    const { refresh } = await letIn(owner, app, { scope });
    assert.deepEqual(await delivered(owner, app), types);
    assert.equal(await pending(owner, app), types.length);
    await revoke(refresh, app);
    assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [[], 0]);
  });

test('the scopes of all grants count together, and what remains of them when one ends', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { refresh: narrow } = await letIn(owner, app, { scope: 'customer:read' });
  const { refresh: wide } = await letIn(owner, app, { scope: 'transaction:read subscription:read' });
  assert.deepEqual(await delivered(owner, app), ['transaction', 'customer', 'subscription']);
  await revoke(wide, app);
  assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [['customer'], 2]);
  const { refresh: all } = await letIn(owner, app, { scope: 'events_read' });
  assert.deepEqual(await delivered(owner, app), PUBLISHED);
  // What was pending when a scope ended is not sent after it has begun again.
  assert.equal(await pending(owner, app), PUBLISHED.length + 2);
  await revoke(all, app);
  assert.deepEqual(await delivered(owner, app), ['customer']);
  await revoke(narrow, app);
  assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [[], 0]);
});

const endings: Record<
  string,
  { end: (owner: Owner, app: App, tokens: Tokens) => Promise<unknown>; rotates?: boolean }
> = {
  ...grantEndings(owners),
  'with the membership': {
    end: ({ storeId, userId }) => call('DELETE', `/stores/${storeId}/members/${userId}`, { token: platform }),
  },
  'with the person': { end: ({ userId }) => call('DELETE', `/users/${userId}`, { token: platform }) },
  'with the grant': { end: async (owner) => call('DELETE', `/grants/${await grantOf(owner)}`, { token: platform }) },
};
for (const [how, { end, rotates = false }] of Object.entries(endings))
  test(`no event of the store is sent once the access has ended ${how}`, async () => {
    const owner = await newOwner();
    const app = await newApp({ owner: maker.userId, rotates_refresh_tokens: rotates });
    const tokens = await letIn(owner, app);
    assert.deepEqual(await delivered(owner, app), PUBLISHED);
    await end(owner, app, tokens);
    assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [[], 0]);
  });

test('while another person gives the app access, the end of the first access changes nothing', async () => {
  const [owner, other, app] = [await newOwner(), await newOwner(), await newApp()];
  const { storeId } = owner;
  await joined(owner, other);
  const { refresh } = await letIn(owner, app, { scope: 'transaction:read' });
  await letIn(other, app, { scope: 'user_full_access' });
  await revoke(refresh, app);
  assert.deepEqual(await delivered(owner, app), PUBLISHED);
  await call('DELETE', `/stores/${storeId}/members/${other.userId}`, { token: platform });
  assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [[], 0]);
});

for (const what of ['app', 'store'] as const)
  test(`nothing is sent while the ${what} is suspended, also if its scope shrinks meanwhile`, async () => {
    const [owner, other, app] = [await newOwner(), await newOwner(), await newApp()];
    await joined(owner, other);
    await letIn(owner, app, { scope: 'customer:read' });
    await letIn(other, app, { scope: 'user_full_access' });
    assert.deepEqual(await delivered(owner, app), PUBLISHED);
    const page = what === 'app' ? `/operator/apps/${app.credentials.client_id}` : `/operator/stores/${owner.storeId}`;
    await sql`
      update webhook set is_active = false, inactive_reason = 'failures', epoch = epoch + 1
      where store_id = ${owner.storeId} and is_for_app and event_resource = 'transaction'`;
    await suspend(page);
    // Another query enables what has failed, but not meanwhile.
    await call('PATCH', `/clients/${app.credentials.client_id}`, {
      token: platform,
      body: { webhook_query: 'fields=id' },
    });
    assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [[], 0]);
    const { status } = await call('DELETE', `/grants/${await grantOf(other)}`, { token: platform });
    assert.equal(status, 204);
    const changed = { token: platform, body: { webhook_events: [...EVENTS, 'customer/modified'] } };
    await call('PATCH', `/clients/${app.credentials.client_id}`, changed);
    assert.deepEqual([await delivered(owner, app), await pending(owner, app)], [[], 0]);
    await resume(page);
    assert.deepEqual(await delivered(owner, app), ['customer']);
  });

test('the database refuses an active webhook whose scope does not cover its resource', async () => {
  const [owner, app] = [await newOwner(), await newApp({ webhook_events: ['customer/created'] })];
  await letIn(owner, app);
  const stores = storesOf(sql);
  const scopes = [
    null,
    '',
    ...FULL,
    ...OF_ALL,
    ...resourceTypes().map((type) => `${type}:read`),
    'app:read customer:read',
  ];
  for (const type of resourceTypes().filter((one) => one !== 'app'))
    for (const scope of scopes) {
      const written = await stores`
        update webhook set event_resource = ${type}, app_scope = ${scope}
        where client = ${app.id} and event_resource <> 'app'`.then(
        () => true,
        () => false,
      );
      assert.equal(written, covers(scope, type), `${String(scope)} ${type}`);
    }
});

test('another app sees neither the webhooks that an app declares for events of the store nor their deliveries', async () => {
  const owner = await newOwner();
  const [app, other] = [await newApp(), await newApp({ webhook_url: null, webhook_events: [] })];
  const { access: own } = await letIn(owner, app);
  const { access: foreign } = await letIn(owner, other);
  assert.deepEqual(await delivered(owner, app), PUBLISHED);
  const [webhook] = await storesOf(sql)<{ id: number }[]>`
    select id from webhook where client = ${app.id} and event_resource = 'customer'`;
  const seen = async (token: string) => {
    const statuses = await call('GET', `/stores/${owner.storeId}/statuses?event=customer/created`, { token });
    const one = await call('GET', `/webhooks/${webhook?.id}`, { token });
    const list = await call('GET', `/stores/${owner.storeId}/webhooks`, { token });
    return [Number(statuses.body['total_items']), one.status, Number(list.body['total_items'])];
  };
  assert.deepEqual(
    [await seen(own), await seen(foreign), await seen(platform)],
    [
      [1, 200, 5],
      [0, 404, 0],
      [1, 200, 5],
    ],
  );
});

test('a store has at most 100 webhooks that apps declare for its events, and its own do not count', async () => {
  const owner = await newOwner();
  const app = await newApp();
  const stores = storesOf(sql);
  await stores`
    insert into webhook (shard, id, store_id, client, name, format, version, url, event_resource, events, is_active, inactive_reason, headers,
      retry_profile, date_created, date_modified, is_for_app)
    select s.shard, nextval('id_n') * 256 + s.shard, s.id, 1000000 + n, 'Other', 'json', '2', 'https://other.example.com/', 'customer',
      '{customer/created}', false, 'access_ended', '{}', 'long', ${owners.now()}, ${owners.now()}, true
    from store s, generate_series(1, 98) as n where s.id = ${owner.storeId}`;
  await letIn(owner, app);
  assert.equal((await delivered(owner, app)).length, 2);
  const hook = { name: 'Hook', format: 'partner_automation', url: 'https://hooks.example.com/' };
  assert.equal((await call('POST', `/stores/${owner.storeId}/webhooks`, { token: platform, body: hook })).status, 201);
});

test('the consent page offers to enable no webhook that the app declares', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { refresh } = await letIn(owner, app);
  await revoke(refresh, app);
  const asked = owners.asking({ client_id: app.credentials.client_id });
  const { text } = await owner.browser.open(`/authorize?${new URLSearchParams(asked).toString()}`);
  assert.match(text, /name="decision"/);
  assert.doesNotMatch(text, /name="resume/);
  await letIn(owner, app, { scope: 'customer:read' });
  assert.deepEqual(await delivered(owner, app), ['customer']);
});

test('of an erased store only the webhook for the events of the app is left, which is sent the erasure', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  await letIn(owner, app);
  assert.deepEqual(await delivered(owner, app), PUBLISHED);
  assert.equal((await call('DELETE', `/stores/${owner.storeId}`, { token: platform })).status, 204);
  const left = await storesOf(sql)<{ type: string; action: string }[]>`
    select w.event_resource as type, e.action from webhook w
    join delivery d on d.shard = w.shard and d.webhook_id = w.id and d.epoch = w.epoch
    join event e on e.shard = d.shard and e.id = d.event_id
    where w.client = ${app.id}`;
  assert.deepEqual(
    left.map(({ type, action }) => [type, action]),
    [['app', 'store_erased']],
  );
  const [row] = await storesOf(sql)<{ n: number }[]>`select count(*) as n from webhook where client = ${app.id}`;
  assert.equal(row?.n, 1);
});
