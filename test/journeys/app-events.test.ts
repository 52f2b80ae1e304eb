/** Events of apps that declare a webhook: each change of an app's access to a store makes one event, however it comes about. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import { OPERATOR } from '#changelog/changelog.ts';
import { createDeclarationPurges, createWebhookPurges } from '#webhooks/webhook-purges-sql.ts';
import { readConfig } from '../../src/config/config.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { ISSUER, REDIRECT } from '../security/oauth-server.ts';
import { saveApp, submit } from '../security/page-forms.ts';
import { grantEndings, type GrantEnding } from '../setup/grant-revocations.ts';
import { openEffects } from '../setup/grant-access.ts';
import { changeHome, homeOf, storesOf } from '../setup/suite-map.ts';
import { startWithOwners, type App, type Owner } from '../setup/owners.ts';

const owners = await startWithOwners();
const { call, origin, sql, platformToken: platform, newOwner, letIn, consent, entriesOf, grantOf } = owners;
const effects = openInternalEvents({ baseUrl: ISSUER });

const URL_OF_APP = 'https://app.example.com/events';
let apps = 0;

/** Creates an app that declares a webhook, or none. */
async function newApp(
  settings: { owner?: number; rotates?: boolean; scopes?: string[]; isDeclaring?: boolean } = {},
): Promise<App> {
  const { owner, rotates = false, scopes = null, isDeclaring = true } = settings;
  const made = await call('POST', '/clients', {
    token: platform,
    body: {
      name: `Gadget ${(apps += 1)}`,
      redirect_uris: [REDIRECT],
      scopes,
      rotates_refresh_tokens: rotates ? '1' : '0',
      ...(owner === undefined ? {} : { owner }),
      ...(isDeclaring ? { webhook_url: URL_OF_APP } : {}),
    },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { client_id: clientId, client_secret: secret } = made.body;
  const credentials = { client_id: String(clientId), client_secret: String(secret) };
  const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${credentials.client_id}`;
  return { id: row?.id ?? NaN, credentials };
}

type AppEvent = { event: string; app: number; scope: unknown; previous: unknown; user: unknown; deliveries: number };

/** Returns the app events of a store in order, each with the number of its deliveries to webhooks of the same app. */
async function eventsOf(storeId: number, among: readonly App[]): Promise<AppEvent[]> {
  const rows = await sql<{ action: string; body: string; to: number[] }[]>`
    select e.action, e.body, array(
      select w.client from delivery d join webhook w on w.shard = d.shard and w.id = d.webhook_id
      where d.shard = e.shard and d.event_id = e.id
    ) as "to"
    from event e where e.resource_type = 'app' and e.store_id = ${storeId} order by e.id`;
  return rows.map(({ action, body, to }) => {
    const {
      client_id: clientId,
      scope,
      previous_scope: previous,
      user,
      store_id: store,
    } = JSON.parse(body) as Record<string, unknown>;
    assert.equal(store, storeId);
    const app = among.findIndex(({ credentials }) => credentials.client_id === clientId);
    const own = to.filter((client) => client === among[app]?.id);
    assert.equal(to.length, own.length, 'delivered to the app itself only');
    return { event: action, app, scope, previous, user, deliveries: own.length };
  });
}

const installed = (scope: string, { userId }: Owner, app = 0): AppEvent => ({
  event: 'installed',
  app,
  scope,
  previous: null,
  user: userId,
  deliveries: 1,
});
const uninstalled = (previous: string, user: number | null, app = 0): AppEvent => ({
  event: 'uninstalled',
  app,
  scope: null,
  previous,
  user,
  deliveries: 1,
});

const maker = await newOwner();
/** The user of the last event is null if the app ends with all its grants. */
const endings: Record<string, { end: GrantEnding['end']; rotates?: boolean; endsApp?: true }> = {
  ...Object.fromEntries(
    Object.entries(grantEndings(owners)).map(([how, { end, rotates = false }]) => [
      how,
      { end, rotates, ...(how.startsWith('with its app') && { endsApp: true as const }) },
    ]),
  ),
  'because its person left the store': {
    end: ({ storeId, userId }) => call('DELETE', `/stores/${storeId}/members/${userId}`, { token: platform }),
  },
  'because its owner deleted the app': {
    end: async (_owner, { credentials }) => {
      const page = `/account/clients/${credentials.client_id}/delete`;
      await submit(maker.browser, page, page);
    },
    endsApp: true,
  },
  'because its person was erased': { end: ({ userId }) => call('DELETE', `/users/${userId}`, { token: platform }) },
};

for (const [how, { end, rotates = false, endsApp }] of Object.entries(endings))
  test(`when access ends ${how}, the app is sent that it was uninstalled, once`, async () => {
    const owner = await newOwner();
    const [app, other] = [await newApp({ owner: maker.userId, rotates }), await newApp()];
    await letIn(owner, other);
    const tokens = await letIn(owner, app);
    const { storeId, userId } = owner;
    const before = [installed('store_full_access', owner, 1), installed('store_full_access', owner)];
    assert.deepEqual(await eventsOf(storeId, [app, other]), before);
    await end(owner, app, tokens);
    const after = (await eventsOf(storeId, [app, other])).slice(2);
    const ended = after.filter((one) => one.app === 0);
    assert.deepEqual(ended, [uninstalled('store_full_access', endsApp === true ? null : userId)]);
    // Its pending deliveries would have failed.
    assert.deepEqual(
      (await entriesOf(storeId)).filter(({ action }) => action === 'deactivated'),
      [],
    );
  });

test('the scope of an app is that of all grants together, and only a change of it is an event', async () => {
  const [owner, other] = [await newOwner(), await newOwner()];
  const { storeId } = owner;
  await call('POST', `/stores/${storeId}/members`, { token: platform, body: { user: other.userId, role: 'member' } });
  const app = await newApp({ scopes: ['webhooks', 'store_read', 'user_full_access'] });
  const first = await letIn(owner, app, { scope: 'webhooks' });
  await letIn(owner, app, { scope: 'webhooks' });
  const wider = await letIn(owner, app, { scope: 'webhooks store_read' });
  const account = await letIn(other, app, { scope: 'user_full_access' });
  const revoke = (token: string): Promise<unknown> =>
    fetch(`${owners.origin}/revoke`, { method: 'POST', body: new URLSearchParams({ token, ...app.credentials }) });
  await revoke(account.refresh);
  await revoke(wider.refresh);
  await revoke(first.refresh);
  const changed = (scope: string, previous: string, { userId: user }: Owner): AppEvent => ({
    event: 'scopes_changed',
    app: 0,
    scope,
    previous,
    user,
    deliveries: 1,
  });
  assert.deepEqual(await eventsOf(storeId, [app]), [
    installed('webhooks', owner),
    changed('store_read webhooks', 'webhooks', owner),
    changed('user_full_access', 'store_read webhooks', other),
    changed('store_read webhooks', 'user_full_access', other),
    changed('webhooks', 'store_read webhooks', owner),
  ]);
  // The account grant was for the other store, too.
  assert.deepEqual(
    (await eventsOf(other.storeId, [app])).map(({ event }) => event),
    ['installed', 'uninstalled'],
  );
});

test('access to a whole account begins and ends in a store with the membership', async () => {
  const [owner, other, app] = [await newOwner(), await newOwner(), await newApp()];
  await letIn(owner, app, { scope: 'user_full_access' });
  const members = `/stores/${other.storeId}/members`;
  await call('POST', members, { token: platform, body: { user: owner.userId, role: 'member' } });
  await call('DELETE', `${members}/${owner.userId}`, { token: platform });
  const invited = await call('POST', `/stores/${other.storeId}/invitations`, {
    token: platform,
    body: { role: 'member' },
  });
  const link = new URL(String(invited.body['link'])).pathname;
  assert.equal((await submit(owner.browser, link, link)).status, 303);
  assert.deepEqual(await eventsOf(other.storeId, [app]), [
    installed('user_full_access', owner),
    uninstalled('user_full_access', owner.userId),
    installed('user_full_access', owner),
  ]);
});

test('a grant whose code is never redeemed, and one that is never refreshed, end the installation when they lapse', async () => {
  const config = readConfig({}, '/');
  const purge = (name: string, now: Date): Promise<unknown> =>
    changeHome(sql, async (home) => {
      const purges = createOAuthPurges({ sql: home, config }, await openEffects(home, ISSUER));
      return purges.find((one) => one.name === name)?.purge(1_000, now);
    });
  const DAY_MS = 86_400_000;
  const later = new Date(owners.now().getTime() + 1_000 * DAY_MS);
  const [unredeemed, idle] = [await newOwner(), await newOwner()];
  const app = await newApp();
  await consent(unredeemed, app);
  await purge('authorization_codes', later);
  await letIn(idle, app);
  await purge('refresh_tokens', later);
  for (const owner of [unredeemed, idle])
    assert.deepEqual(await eventsOf(owner.storeId, [app]), [
      installed('store_full_access', owner),
      uninstalled('store_full_access', owner.userId),
    ]);
});

test('when a store is erased, each app that declares a webhook is sent that, also one that was uninstalled before', async () => {
  const owner = await newOwner();
  const { storeId } = owner;
  const [app, former, silent] = [await newApp(), await newApp(), await newApp({ isDeclaring: false })];
  const { refresh } = await letIn(owner, former);
  await fetch(`${owners.origin}/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ token: refresh, ...former.credentials }),
  });
  await letIn(owner, app);
  await letIn(owner, silent);
  // As the webhook of an app that was let in before there was this event, and that Halcyon has disabled.
  await sql`
    update webhook set events = array_remove(events, 'app/store_erased'), is_active = false, inactive_reason = 'failures'
    where store_id = ${storeId} and client = ${app.id}`;
  const before = (await eventsOf(storeId, [app, former])).length;
  assert.equal((await call('DELETE', `/stores/${storeId}`, { token: platform })).status, 204);
  const erased = { event: 'store_erased', scope: null, user: null, deliveries: 1 };
  const after = (await eventsOf(storeId, [app, former])).slice(before);
  assert.deepEqual(
    after.toSorted((a, b) => a.app - b.app),
    [
      { ...erased, app: 0, previous: 'store_full_access' },
      { ...erased, app: 1, previous: null },
    ],
  );
});

test('an ending that is rolled back makes no event', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  await letIn(owner, app);
  const which = { userId: owner.userId, actor: OPERATOR, origin: null, now: owners.now() };
  const failing = sql.begin(async (tx) => {
    assert.equal(await revokeGrantsOf(tx, effects, which), 1);
    throw new RangeError('on the way to the commit');
  });
  await assert.rejects(failing, RangeError);
  assert.deepEqual(await eventsOf(owner.storeId, [app]), [installed('store_full_access', owner)]);
});

test('concurrent endings of several grants of an app in a store make one event', async () => {
  const owner = await newOwner();
  const app = await newApp();
  const tokens = [await letIn(owner, app), await letIn(owner, app), await letIn(owner, app)];
  await Promise.all(
    tokens.map(({ refresh }) =>
      fetch(`${owners.origin}/revoke`, {
        method: 'POST',
        body: new URLSearchParams({ token: refresh, ...app.credentials }),
      }),
    ),
  );
  assert.deepEqual(await eventsOf(owner.storeId, [app]), [
    installed('store_full_access', owner),
    uninstalled('store_full_access', owner.userId),
  ]);
});

test('an app that declares its webhook after it was installed is sent only later changes, and nothing after it removed it', async () => {
  const [owner, app] = [await newOwner(), await newApp({ owner: maker.userId, isDeclaring: false })];
  const { refresh } = await letIn(owner, app);
  const save = (url: string) =>
    saveApp(maker.browser, app.credentials.client_id, { redirect_uris: REDIRECT, webhook_url: url });
  assert.equal((await save(URL_OF_APP)).status, 303);
  assert.deepEqual(await eventsOf(owner.storeId, [app]), []);
  await fetch(`${owners.origin}/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ token: refresh, ...app.credentials }),
  });
  assert.deepEqual(await eventsOf(owner.storeId, [app]), [uninstalled('store_full_access', owner.userId)]);
  assert.equal((await save('')).status, 303);
  await letIn(owner, app);
  assert.equal((await eventsOf(owner.storeId, [app])).length, 1);
  const [{ n } = { n: -1 }] = await sql<{ n: number }[]>`select count(*) as n from webhook where client = ${app.id}`;
  assert.equal(n, 0);
});

test('the webhook of an app is deleted 30 days after its last event, and the declaration of a deleted app after its last webhook', async () => {
  const [owner, other] = [await newOwner(), await newOwner()];
  const app = await newApp();
  await letIn(owner, app);
  await letIn(other, app);
  await call('DELETE', `/grants/${await grantOf(owner)}`, { token: platform });
  const purges = [
    ...createWebhookPurges({ sql: storesOf(sql), retentionDays: 30 }),
    ...createDeclarationPurges({ sql: homeOf(sql), each: () => [storesOf(sql)] }),
  ];
  const purge = async (days: number): Promise<void> => {
    const now = new Date(owners.now().getTime() + days * 86_400_000);
    for (const { name, purge: run } of purges) if (name !== 'rotated_keys') await run(1_000, now);
  };
  const left = async () => {
    const stores = await sql<{ id: number }[]>`
      select store_id as id from webhook where client = ${app.id} order by store_id`;
    const declared = await sql`select from app_webhook where client = ${app.id}`;
    return { stores: stores.map(({ id }) => id), declared: declared.length === 1 };
  };
  await purge(29);
  assert.deepEqual(await left(), { stores: [owner.storeId, other.storeId].toSorted((a, b) => a - b), declared: true });
  await purge(31);
  assert.deepEqual(await left(), { stores: [other.storeId], declared: true });
  await call('DELETE', `/clients/${app.credentials.client_id}`, { token: platform });
  await sql`delete from access_grant where client = ${app.id}`;
  await sql`delete from client where id = ${app.id}`;
  await purge(29);
  assert.deepEqual(await left(), { stores: [other.storeId], declared: true });
  await purge(31);
  assert.deepEqual(await left(), { stores: [], declared: false });
});

test('an app reads its own changes of access only, and subscribes no webhook to those of others', async () => {
  const owner = await newOwner();
  const { storeId } = owner;
  const [app, other] = [await newApp(), await newApp()];
  const { access: token } = await letIn(owner, app);
  await letIn(owner, other);
  const list = `/stores/${storeId}/apps`;
  const itemsFor = async (reader: string): Promise<Record<string, unknown>[]> => {
    const { body } = await call('GET', list, { token: reader });
    return (body['_embedded'] as Record<string, Record<string, unknown>[]>)['svc:apps'] ?? [];
  };
  const [both, own] = [await itemsFor(platform), await itemsFor(token)];
  assert.deepEqual(
    [both, own].map((items) => items.map(({ client_id: id }) => id)),
    [[app.credentials.client_id, other.credentials.client_id], [app.credentials.client_id]],
  );
  const ids = both.map(({ id }) => String(id));
  const statuses = async (pathOf: (id: string) => string): Promise<number[]> => {
    const read = ids.map(async (id) => (await call('GET', pathOf(id), { token })).status);
    return Promise.all(read);
  };
  assert.deepEqual(await statuses((id) => `${list}/${id}`), [200, 404]);
  assert.deepEqual(await statuses((id) => `/stores/${storeId}/events/${id}/payload`), [200, 404]);
  const hook = { name: 'Hook', format: 'json', encryption_key: 'a key', url: 'https://hooks.example.com/' };
  const add = (body: Record<string, unknown>, by = token) =>
    call('POST', `/stores/${storeId}/webhooks`, { token: by, body: { ...hook, ...body } });
  assert.equal((await add({ events: ['app/installed'] })).status, 400);
  assert.equal((await add({ events: ['app/installed'], is_held: '1', url: null })).status, 400);
  const made = await add({ event_resource: 'customer' });
  const path = `/webhooks/${String(made.body['id'])}`;
  assert.equal((await call('PATCH', path, { token, body: { event_resource: 'app' } })).status, 400);
  const ofAll = await add({ event_resource: 'app' }, platform);
  assert.equal(ofAll.status, 201);
  const moved = { url: 'https://other.example.com/' };
  assert.equal((await call('PATCH', `/webhooks/${String(ofAll.body['id'])}`, { token, body: moved })).status, 400);
});

test('a store sees the webhook of an app without its key, and changes nothing of it', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const [row] = await sql<{ id: number }[]>`select id from webhook where client = ${app.id}`;
  const path = `/webhooks/${row?.id}`;
  const page = await fetch(origin + path, { headers: { Accept: 'text/html', Cookie: owner.browser.cookie() ?? '' } });
  const shown = await page.text();
  assert.deepEqual([page.status, shown.includes('whsec_')], [200, false]);
  assert.deepEqual([...shown.matchAll(/name="_method" value="(PATCH|PUT|DELETE)"/g)], []);
  assert.match(shown, /Send test|\/test"/);
  for (const token of [platform, access]) {
    const { body } = await call('GET', path, { token });
    assert.deepEqual([body['url'], body['encryption_key']], [URL_OF_APP, null]);
    for (const [method, at, change] of [
      ['PATCH', path, { url: 'https://other.example.com/' }],
      ['PATCH', path, { is_active: '0' }],
      ['DELETE', path, undefined],
    ] as const) {
      const refused = await call(method, at, { token, ...(change && { body: change }) });
      assert.equal(refused.status, 409, `${method} ${at}`);
    }
  }
  const rotated = await call('POST', `${path}/rotate_key`, { token: access, body: {} });
  assert.equal(rotated.status, 409);
  const [{ n } = { n: -1 }] = await sql<
    { n: number }[]
  >`select count(*) as n from webhook where store_id = ${owner.storeId}`;
  assert.equal(n, 1);
  const hook = { name: 'Hook', format: 'partner_automation', url: 'https://hooks.example.com/' };
  const add = () => call('POST', `/stores/${owner.storeId}/webhooks`, { token: platform, body: hook });
  for (let made = 0; made < 100; made += 1) assert.equal((await add()).status, 201);
  assert.equal((await add()).status, 409);
});
