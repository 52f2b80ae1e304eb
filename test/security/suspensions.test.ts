/** An app or a store that an operator has suspended: nothing of it works in any way until the suspension ends, and what it had comes back then. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUnattendedPurge } from '#webhooks/listener-operations.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { transaction, type Queryable } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { faultsOf, itemsOf } from '../setup/caller.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startWithOwners, type App, type Owner } from '../setup/owners.ts';
import { send } from '../setup/send.ts';
import { homeOf, inOneDatabase, storesOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import { ISSUER, REDIRECT } from './oauth-server.ts';
import { suspending } from './operators.ts';
import { hiddenIn } from './page-forms.ts';

const owners = await startWithOwners();
const { call, sql, origin, asking, platformToken, newOwner, letIn, entriesOf } = owners;
const { operator, factor, post, suspend, resume } = await suspending(owners);
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const REASON = 'It leaks data';
const pathOf = ({ credentials }: App): string => `/operator/apps/${credentials.client_id}`;
const pathOfStore = ({ storeId }: Owner): string => `/operator/stores/${storeId}`;

async function newApp({ declares = false, mayUseDevices = false } = {}): Promise<App> {
  const url = { webhook_url: 'https://app.example.com/events' };
  const body = { name: 'Gadget', redirect_uris: [REDIRECT], ...(declares ? url : {}) };
  const made = await call('POST', '/clients', { token: platformToken, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { client_id, client_secret } = made.body as Record<string, unknown>;
  const credentials = { client_id: String(client_id), client_secret: String(client_secret) };
  await homeOf(
    sql,
  )`update client set allows_device_grant = ${mayUseDevices} where client_id = ${credentials.client_id}`;
  const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${credentials.client_id}`;
  return { id: row?.id ?? NaN, credentials };
}

type Hook = { isActive: boolean; reason: string | null; epoch: number; listenedAt: Date | null };

async function hookOf(id: number): Promise<Hook> {
  const [row] = await storesOf(sql)<Hook[]>`
    select is_active as "isActive", inactive_reason as reason, epoch, listened_at as "listenedAt" from webhook where id = ${id}`;
  assert.ok(row !== undefined, `webhook ${id}`);
  return row;
}
const reasonOf = async (id: number): Promise<string | null> => {
  const { isActive, reason } = await hookOf(id);
  return isActive ? 'active' : reason;
};
const declaredOf = async (app: App, { storeId }: Owner): Promise<number> => {
  const [row] = await storesOf(sql)<{ id: number }[]>`
    select id from webhook where client = ${app.id} and store_id = ${storeId} and is_for_app`;
  return row?.id ?? NaN;
};

const HOOK = { name: 'Parcels', format: 'json', encryption_key: 'a key of mine', event_resource: 'transaction' };
const toApp = { url: 'https://app.example.com/moved' };
const newHook = async ({ storeId }: Owner, by: string, changes: object = {}): Promise<number> => {
  const body = { ...HOOK, url: 'https://app.example.com/hook', ...changes };
  const made = await call('POST', `/stores/${storeId}/webhooks`, { token: by, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return Number(made.body['id']);
};

const oauthPost = async (path: string, form: Record<string, string>, headers = {}): Promise<[number, unknown]> => {
  const { status, text } = await send(origin + path, { method: 'POST', headers, body: new URLSearchParams(form) });
  const { error, active } = JSON.parse(text === '' ? '{}' : text) as Record<string, unknown>;
  return [status, error ?? active ?? 'ok'];
};

const manage = async (method: string, path: string, by: string, body?: object): Promise<[number, unknown]> => {
  const headers = { Authorization: `Bearer ${by}`, ...(body && { 'Content-Type': 'application/json' }) };
  const { status, text } = await send(origin + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return [status, (JSON.parse(text) as Record<string, unknown>)['error'] ?? 'ok'];
};

/** Registers an app with a management token. */
async function register(): Promise<{ id: string; path: string; token: string }> {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${platformToken}` };
  const body = JSON.stringify({ client_name: 'Managed', redirect_uris: [REDIRECT] });
  const { text } = await send(`${origin}/register`, { method: 'POST', headers, body });
  const made = JSON.parse(text) as Record<string, string>;
  return {
    id: made['client_id'] ?? '',
    path: `/register/${made['client_id']}`,
    token: made['registration_access_token'] ?? '',
  };
}

const disconnecting = async (owner: Owner) => {
  const revoke = `/account/connected/${await owners.grantOf(owner)}/revoke`;
  const fields = hiddenIn(await owner.browser.open('/account'), revoke);
  return () => owner.browser.post(revoke, fields);
};
const reasonIn = async (table: 'client' | 'store', id: number): Promise<string | null | undefined> => {
  const home = homeOf(sql);
  const [row] = await home<{ reason: string | null }[]>`
    select suspended_reason as reason from ${home(table)} where id = ${id}`;
  return row?.reason;
};

test('the form needs a reason of one line, its own nonce, and a person who has just confirmed who they are', async () => {
  const [app, another, owner] = [await newApp(), await newApp(), await newOwner()];
  for (const unknown of ['apps/unknown', 'people/999999999', 'stores/999999999'])
    assert.equal((await operator.open(`/operator/${unknown}`)).status, 404, unknown);
  for (const [table, id, path] of [
    ['client', app.id, pathOf(app)],
    ['store', owner.storeId, pathOfStore(owner)],
  ] as const) {
    for (const reason of ['', '  ', 'two\nlines', '…', 'x'.repeat(201)])
      assert.equal((await post(path, { reason })).status, 422, JSON.stringify(reason));
    const elsewhere = hiddenIn(await operator.open(pathOf(another)), pathOf(another));
    for (const hidden of [elsewhere, { ...hiddenIn(await operator.open(path), path), act: 'resume' }])
      assert.equal((await operator.post(path, { ...hidden, reason: REASON })).status, 403);
    const shown = await operator.open(path);
    const { act = '', nonce = '' } = hiddenIn(shown, path);
    assert.deepEqual([shown.status, act], [200, 'suspend']);
    assert.equal((await operator.post(path, { act, nonce })).status, 422, 'without a reason');
    const fields = { act, nonce, reason: ` ${REASON} ` };
    owners.wait(11 * 60_000);
    const asked = await operator.post(path, fields);
    assert.deepEqual([asked.status, await reasonIn(table, id)], [403, null]);
    const confirmed = await factor.confirm(path, asked);
    assert.deepEqual([confirmed.status, await reasonIn(table, id)], [303, REASON]);
    assert.equal((await operator.post(path, { ...fields, reason: 'Another' })).status, 303);
    assert.equal(await reasonIn(table, id), REASON, 'a second click changes nothing');
  }
  await resume(pathOfStore(owner));
  const entries = await homeOf(sql)<{ action: string; user: number | null; detail: unknown }[]>`
    select action, user_id as user, detail from audit where store_id = ${owner.storeId} and action ~ 'suspended|resumed' order by id`;
  const detail = { store: 'Shop', operator: String(owners.bobId) };
  assert.deepEqual(
    [...entries],
    [
      { action: 'store_suspended', user: null, detail: { ...detail, reason: REASON } },
      { action: 'store_resumed', user: null, detail },
    ],
  );
});

test('the app of the command line cannot be suspended, and an act is in the audit with the operator and the reason', async () => {
  const builtIn = '/operator/apps/halcyon-cli';
  await createClient(homeOf(sql), {
    clientId: 'halcyon-cli',
    name: 'Halcyon',
    redirectUris: [REDIRECT],
    trusted: false,
    now: owners.now(),
  });
  assert.equal((await post(builtIn, { reason: REASON })).status, 409);
  const owner = await newOwner();
  const app = await owners.newApp(owner.userId);
  await suspend(pathOf(app));
  const page = await owner.browser.open(`/account/clients/${app.credentials.client_id}`);
  assert.ok(page.text.includes(REASON), 'its developer reads the reason');
  const ownToken = `/account/clients/${app.credentials.client_id}/token?scope=store_full_access`;
  assert.equal((await owner.browser.open(ownToken)).status, 403, 'and makes no token of it');
  await resume(pathOf(app));
  assert.equal((await owner.browser.open(ownToken)).status, 200);
  const entries = await homeOf(sql)<{ action: string; user: number; address: string | null; detail: unknown }[]>`
    select action, user_id as user, address, detail from audit where client = ${app.id} and action ~ 'suspended|resumed' order by id`;
  const of = { user: owner.userId, address: null };
  const detail = { client_id: app.credentials.client_id, name: 'Gadget', operator: String(owners.bobId) };
  assert.deepEqual(
    [...entries],
    [
      { action: 'client_suspended', ...of, detail: { ...detail, reason: REASON } },
      { action: 'client_resumed', ...of, detail },
    ],
  );
});

// The ways to use what an app has: each works before, is refused meanwhile, and works after.

test('a suspension refuses every use of tokens and secrets of the app in every process at once, and no use after its end', async () => {
  const [owner, app] = [await newOwner(), await newApp({ mayUseDevices: true })];
  const { credentials } = app;
  const managed = await register();
  const tokens = await letIn(owner, app);
  const hook = await newHook(owner, tokens.access);
  const second = await owners.startSecond();
  const device = await send(`${origin}/device_authorization`, {
    method: 'POST',
    body: new URLSearchParams({ ...credentials, scope: 'store_full_access' }),
  });
  const { device_code, user_code } = JSON.parse(device.text) as Record<string, string>;
  const account = { by: (await letIn(owner, app, { scope: 'user_full_access' })).access };
  const api = async (path: string, { at = origin, by = tokens.access } = {}): Promise<[number, unknown]> => {
    const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${by}` };
    const { status, text } = await send(at + path, { headers });
    return [status, faultsOf({ status, headers: new Headers(), body: JSON.parse(text) as never })[0] ?? 'ok'];
  };
  const list = async (path: string, token: string): Promise<[number, unknown]> => {
    const listed = await call('GET', path, { token });
    return [listed.status, itemsOf(listed, 'stores').length];
  };
  const offered = async (path: string): Promise<[number, unknown]> => {
    const { status, text } = await owner.browser.open(path);
    return [status, text.includes(`name="store" value="${owner.storeId}"`)];
  };
  const page = async (path: string): Promise<[number, unknown]> => {
    const { open, head } = owner.browser;
    const { status, location } = await (path.endsWith('/live') ? head(path) : open(path, { Accept: 'text/html' }));
    return [status, location];
  };
  const consentPath = `/authorize?${new URLSearchParams(asking(credentials)).toString()}`;
  const byPlatform = { Authorization: `Bearer ${platformToken}` };
  type Result = [number, unknown];
  type Way = [way: string, use: () => Promise<Result>, before: Result, ofApp: Result, ofStore?: Result];
  const ok: Result = [200, 'ok'];
  const [appSuspended, storeSuspended]: [Result, Result] = [
    [403, '- app_suspended'],
    [403, '- store_suspended'],
  ];
  const refused: Result = [400, 'unauthorized_client'];
  const [shown, forbidden]: [Result, Result] = [
    [200, null],
    [403, null],
  ];
  const [active, inactive]: [Result, Result] = [
    [200, true],
    [200, false],
  ];
  const store = `/stores/${owner.storeId}`;
  const toToken = (form: Record<string, string>) => oauthPost('/token', { ...credentials, ...form });
  const introspect = (token: string, form = {}, headers = {}) => oauthPost('/introspect', { token, ...form }, headers);
  // Without `ofStore` the way is no use of the store.
  const ways: Way[] = [
    ['its store', () => api(store), ok, appSuspended, storeSuspended],
    ['another process', () => api(store, { at: second }), ok, appSuspended, storeSuspended],
    ['its webhook', () => api(`/webhooks/${hook}`), ok, appSuspended, storeSuspended],
    ['with the account', () => api(store, account), ok, appSuspended, storeSuspended],
    ['its webhook with the account', () => api(`/webhooks/${hook}`, account), ok, appSuspended, storeSuspended],
    ['the account', () => api(`/users/${owner.userId}`, account), ok, appSuspended],
    ['the list of stores', () => list('/stores', account.by), [200, 1], [403, 0], [200, 0]],
    ['refresh', () => toToken({ grant_type: 'refresh_token', refresh_token: tokens.refresh }), ok, refused, refused],
    [
      'an unknown code',
      () => toToken({ grant_type: 'authorization_code', code: 'x', redirect_uri: REDIRECT }),
      [400, 'invalid_grant'],
      refused,
    ],
    ['client_credentials', () => toToken({ grant_type: 'client_credentials', scope: 'platform' }), refused, refused],
    [
      'a poll of its device',
      () => toToken({ grant_type: DEVICE_GRANT, device_code: device_code ?? '' }),
      [400, 'authorization_pending'],
      refused,
    ],
    [
      'a new device',
      () => oauthPost('/device_authorization', { scope: 'store_full_access', ...credentials }),
      ok,
      refused,
    ],
    ['introspection by the app', () => introspect(tokens.access, credentials), active, refused, inactive],
    ['introspection of its access token', () => introspect(tokens.access, {}, byPlatform), active, inactive, inactive],
    [
      'introspection of its refresh token',
      () => introspect(tokens.refresh, {}, byPlatform),
      active,
      inactive,
      inactive,
    ],
    [
      'a wrong secret',
      () => toToken({ grant_type: 'refresh_token', refresh_token: tokens.refresh, client_secret: 'x' }),
      [401, 'invalid_client'],
      [401, 'invalid_client'],
    ],
    ['a consent', () => offered(consentPath), [200, true], [400, false], [200, false]],
    ['/device', () => page(`/device?user_code=${user_code}`), shown, forbidden],
    ['its registration', () => manage('GET', managed.path, managed.token), ok, [403, 'app_suspended']],
    ...['', '/overview', '/webhooks', '/search?q=1', '/live'].map((path): Way => [
      `${path} by its owner`,
      () => page(store + path),
      shown,
      shown,
      forbidden,
    ]),
    ['the webhook by its owner', () => page(`/webhooks/${hook}`), shown, shown, forbidden],
    ['the own membership', () => page(`${store}/members/${owner.userId}`), shown, shown],
    ['the platform', async () => [(await call('GET', store, { token: platformToken })).status, null], shown, shown],
  ];
  const results = async (): Promise<Record<string, unknown>> => {
    const found: Record<string, unknown> = {};
    for (const [way, use] of ways) found[way] = await use();
    // A poll within the interval of a device gets another error.
    owners.wait(6_000);
    return found;
  };
  const before = Object.fromEntries(ways.map(([way, , expected]) => [way, expected]));
  const ofApp = Object.fromEntries(ways.map(([way, , , expected]) => [way, expected]));
  const ofStore = Object.fromEntries(ways.map(([way, , expected, , of = expected]) => [way, of]));
  assert.deepEqual(await results(), before);
  for (const [paths, expected] of [
    [[pathOf(app), `/operator/apps/${managed.id}`], ofApp],
    [[pathOfStore(owner)], ofStore],
  ] as const) {
    for (const path of paths) await suspend(path);
    assert.deepEqual(await results(), expected);
    for (const path of paths) await resume(path);
    assert.deepEqual(await results(), before);
  }
});

test('a client of the platform can be suspended, with its tokens', async () => {
  const publisher = await owners.platformTokenOf('Publisher');
  const [row] = await homeOf(sql)<
    { clientId: string }[]
  >`select client_id as "clientId" from client where name = 'Publisher'`;
  const path = `/operator/apps/${row?.clientId}`;
  const read = async () => (await call('GET', '/stores', { token: publisher })).status;
  const statuses = [await read()];
  await suspend(path);
  statuses.push(await read());
  await resume(path);
  assert.deepEqual([...statuses, await read()], [200, 403, 200]);
});

// Webhooks.

test('webhooks of the app are disabled, and its end enables those that it may still have and no others', async () => {
  const [owner, other, app] = [await newOwner(), await newOwner(), await newApp({ declares: true })];
  const { access } = await letIn(owner, app);
  const left = await letIn(other, app);
  const [kept, off] = [await newHook(owner, access), await newHook(owner, access, { is_active: '0' })];
  const ended = await newHook(other, left.access);
  const declared = [await declaredOf(app, owner), await declaredOf(app, other)];
  const mine = await newHook(owner, platformToken);
  const all = [kept, off, ended, mine, ...declared];
  const reasons = () => Promise.all(all.map(reasonOf));
  const eventsOf = async ({ storeId }: Owner): Promise<string[]> =>
    (
      await storesOf(sql)<{ action: string }[]>`
      select action from event where store_id = ${storeId} and resource_type = 'app' order by id`
    ).map(({ action }) => action);
  assert.deepEqual(await reasons(), ['active', null, 'active', 'active', 'active', 'active']);
  const epoch = (await hookOf(kept)).epoch;

  await suspend(pathOf(app));
  assert.deepEqual(await reasons(), ['suspended', null, 'suspended', 'active', 'suspended', 'suspended']);
  assert.equal((await hookOf(kept)).epoch, epoch + 1, 'pending deliveries have failed');
  const grant = await owners.grantOf(other);
  const connected = await other.browser.open('/account');
  assert.match(connected.text, /Suspended by the operator/);
  const revoke = `/account/connected/${grant}/revoke`;
  assert.equal((await other.browser.post(revoke, hiddenIn(connected, revoke))).status, 303);
  assert.deepEqual(await eventsOf(other), ['installed'], 'a suspended app is sent nothing');
  for (const method of ['PATCH', 'PUT']) {
    const change = method === 'PUT' ? { ...HOOK, url: 'https://app.example.com/hook' } : { is_active: '1' };
    const enabled = await call(method, `/webhooks/${kept}`, { token: platformToken, body: change });
    assert.deepEqual([enabled.status, faultsOf(enabled)], [409, ['- app_suspended']], method);
  }
  for (const id of [kept, off]) {
    const tested = await call('POST', `/webhooks/${id}/test`, { token: platformToken, body: {} });
    assert.deepEqual([tested.status, faultsOf(tested)], [409, ['- app_suspended']]);
  }

  await resume(pathOf(app));
  assert.deepEqual(await reasons(), ['active', null, 'access_ended', 'active', 'active', 'active']);
  assert.deepEqual(await eventsOf(other), ['installed', 'uninstalled'], 'what changed meanwhile is sent');
  const entries = (await entriesOf(owner.storeId)).filter(({ resource_id: id }) => id === kept).slice(1);
  assert.deepEqual(
    entries.map(({ actor, action, after }) => [actor, action, after]),
    [
      ['halcyon', 'deactivated', { is_active: '0', inactive_reason: 'suspended' }],
      ['halcyon', 'changed', { is_active: '1', inactive_reason: null }],
    ],
  );
});

test('all webhooks of a suspended store are disabled, what is published is kept, and its end enables those that may send', async () => {
  const [owner, other, app, left] = [
    await newOwner(),
    await newOwner(),
    await newApp({ declares: true }),
    await newApp(),
  ];
  const [{ access }, { access: ending }] = [await letIn(owner, app), await letIn(owner, left)];
  const disconnect = await disconnecting(owner);
  const elsewhere = await newHook(other, (await letIn(other, app)).access);
  const [off, ofPlatform, ofApp] = [
    await newHook(owner, platformToken, { is_active: '0' }),
    await newHook(owner, platformToken),
    await newHook(owner, access),
  ];
  const ended = await newHook(owner, ending);
  const ofPerson = await newHook(owner, platformToken);
  await storesOf(sql)`update webhook set client = null, user_id = ${owner.userId} where id = ${ofPerson}`;
  const all = [off, ofPlatform, ofApp, ended, ofPerson, await declaredOf(app, owner), elsewhere];
  const reasons = () => Promise.all(all.map(reasonOf));
  const publish = async (id: number): Promise<number[]> => {
    const body = { event: 'transaction/created', resource: { id, total_order: 5 } };
    const published = await call('POST', `/stores/${owner.storeId}/events`, { token: platformToken, body });
    assert.ok(published.status < 300, JSON.stringify(published.body));
    const sent = await storesOf(sql)<{ webhookId: number }[]>`
      select d.webhook_id as "webhookId" from delivery d join event e on e.shard = d.shard and e.id = d.event_id
      where d.shard = ${owner.storeId % 256} and e.resource_type = 'transaction' and e.resource_id = ${String(id)} order by 1`;
    return sent.map(({ webhookId }) => webhookId);
  };
  assert.deepEqual(await publish(1), [ofPlatform, ofApp, ended, ofPerson]);
  await suspend(pathOfStore(owner));
  const [suspendedAll, active] = [all.slice(1, -1).map(() => 'suspended'), 'active'];
  assert.deepEqual(await reasons(), [null, ...suspendedAll, active]);
  assert.deepEqual(await publish(2), []);
  const refusals = [
    await call('PATCH', `/webhooks/${off}`, { token: platformToken, body: { is_active: '1' } }),
    await call('POST', `/stores/${owner.storeId}/webhooks`, { token: platformToken, body: { ...HOOK, ...toApp } }),
    await call('POST', `/webhooks/${off}/test`, { token: platformToken, body: {} }),
  ];
  for (const refused of refusals) assert.deepEqual([refused.status, faultsOf(refused)], [409, ['- store_suspended']]);
  await disconnect();
  const late = await newApp({ declares: true });
  await letIn(owner, late, { scope: 'user_full_access' });
  const inserted = await declaredOf(late, owner);
  assert.equal(await reasonOf(inserted), 'suspended');

  await resume(pathOfStore(owner));
  assert.deepEqual(await reasons(), [null, active, active, 'access_ended', active, active, active]);
  assert.equal(await reasonOf(inserted), active);
  const toApps = await storesOf(sql)<{ body: string }[]>`
    select body from event where store_id = ${owner.storeId} and resource_type = 'app' order by id`;
  const installed = toApps.map(({ body }) => (JSON.parse(body) as Record<string, unknown>)['client_id']);
  assert.deepEqual(
    installed,
    [app.credentials.client_id, late.credentials.client_id],
    'what changed meanwhile is sent',
  );
  assert.deepEqual(await publish(3), [ofPlatform, ofApp, ofPerson]);
  const kept = await storesOf(sql)`
    select from event where store_id = ${owner.storeId} and resource_type = 'transaction'`;
  assert.equal(kept.length, 3);
});

test('the erasure of a suspended store is sent to its apps, except to those that are suspended', async () => {
  const [owner, app, suspendedApp] = [
    await newOwner(),
    await newApp({ declares: true }),
    await newApp({ declares: true }),
  ];
  await letIn(owner, app);
  await letIn(owner, suspendedApp);
  const declared = [await declaredOf(app, owner), await declaredOf(suspendedApp, owner)];
  await suspend(pathOf(suspendedApp));
  await suspend(pathOfStore(owner));
  const { status } = await call('DELETE', `/stores/${owner.storeId}`, { token: platformToken });
  assert.equal(status, 204);
  assert.deepEqual(await Promise.all(declared.map(reasonOf)), ['active', 'suspended']);
});

test('a code or a membership that is given before or during the suspension of a store reaches it after the end', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const code = await owners.consent(owner, app);
  await suspend(pathOfStore(owner));
  const refused = await owners.redeem(code, app.credentials);
  assert.deepEqual([refused.status, refused.body['error']], [400, 'unauthorized_client']);
  const guest = await newOwner();
  const body = { user: guest.userId, role: 'member' };
  const added = await call('POST', `/stores/${owner.storeId}/members`, { token: platformToken, body });
  assert.equal(added.status, 201, JSON.stringify(added.body));
  const page = () => guest.browser.open(`/stores/${owner.storeId}`, { Accept: 'text/html' });
  const { status, text } = await page();
  assert.deepEqual([status, text.includes(REASON)], [403, true]);
  const own = `/stores/${owner.storeId}/members/${guest.userId}`;
  const hidden = hiddenIn(await guest.browser.open(own, { Accept: 'text/html' }), own);
  assert.ok(Object.keys(hidden).length > 0, 'the guest can leave');
  await resume(pathOfStore(owner));
  assert.deepEqual([(await page()).status, (await owners.redeem(code, app.credentials)).status], [200, 200]);
});

test('a person whose only store is suspended begins at their stores, with the reason, the way out and the navigation', async () => {
  const owner = await newOwner();
  await suspend(pathOfStore(owner));
  const open = (path: string) => owner.browser.open(path, { Accept: 'text/html' });
  assert.match((await open('/home')).location ?? '', /\/stores$/);
  const list = (await open('/stores')).text;
  assert.deepEqual(
    [list.includes(REASON), list.includes(`/stores/${owner.storeId}/members/${owner.userId}`)],
    [true, true],
  );
  const { status, text } = await open(`/stores/${owner.storeId}/overview`);
  assert.deepEqual([status, text.includes('href="/account"')], [403, true]);
});

test('a suspended sandbox store is neither shown nor replaced by another', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app, { scope: 'user_full_access' });
  const provide = () => call('POST', `/users/${owner.userId}/sandbox_store`, { token: access, body: {} });
  const { body } = await provide();
  const sandbox = { ...owner, storeId: Number(body['id']) };
  await suspend(pathOfStore(sandbox));
  const refused = await provide();
  assert.deepEqual([refused.status, faultsOf(refused)], [403, ['- store_suspended']]);
  await resume(pathOfStore(sandbox));
  assert.equal((await provide()).body['id'], sandbox.storeId);
});

test('a webhook that a person disables while its app is suspended stays disabled', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const [disabled, renamed] = [await newHook(owner, access), await newHook(owner, access)];
  await suspend(pathOf(app));
  for (const [id, body] of [
    [disabled, { is_active: '0' }],
    [renamed, { name: 'Letters' }],
  ] as const)
    assert.equal((await call('PATCH', `/webhooks/${id}`, { token: platformToken, body })).status, 200);
  assert.deepEqual([await reasonOf(disabled), await reasonOf(renamed)], [null, 'suspended']);
  await resume(pathOf(app));
  assert.deepEqual([await reasonOf(disabled), await reasonOf(renamed)], [null, 'active']);
});

test('the public page of a suspended app does not show the reason, which is for its users', async () => {
  const app = await newApp();
  await suspend(pathOf(app));
  for (const path of ['', '/install']) {
    const { status, text } = await send(`${origin}/apps/${app.credentials.client_id}${path}`, {});
    assert.equal(status, 403);
    assert.ok(!text.includes(REASON), text);
  }
});

test('an app that is deleted while it is suspended ends as any other', async () => {
  const [owner, app] = [await newOwner(), await newApp({ declares: true })];
  const { access } = await letIn(owner, app);
  const [own, declared] = [await newHook(owner, access), await declaredOf(app, owner)];
  await suspend(pathOf(app));
  const { status } = await call('DELETE', `/clients/${app.credentials.client_id}`, { token: platformToken });
  assert.equal(status, 204);
  // The declared webhook is deleted when app/uninstalled has been delivered.
  assert.deepEqual([await reasonOf(own), await reasonOf(declared)], ['access_ended', 'active']);
  const [last] = await storesOf(sql)<{ action: string }[]>`
    select action from event where store_id = ${owner.storeId} and resource_type = 'app' order by id desc limit 1`;
  assert.equal(last?.action, 'uninstalled');
});

test('the store of a suspended app that is erased sends it nothing', async () => {
  const [owner, app] = [await newOwner(), await newApp({ declares: true })];
  await letIn(owner, app);
  const declared = await declaredOf(app, owner);
  await suspend(pathOf(app));
  const { status } = await call('DELETE', `/stores/${owner.storeId}`, { token: platformToken });
  assert.equal(status, 204);
  assert.equal(await reasonOf(declared), 'suspended');
  const pending = await storesOf(
    sql,
  )`select from delivery d join webhook w on w.shard = d.shard and w.id = d.webhook_id and w.epoch = d.epoch
    where d.webhook_id = ${declared}`;
  assert.equal(pending.length, 0);
});

test('the page of a suspended webhook says so, and failures of before do not count after', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const id = await newHook(owner, access);
  const since = new Date(owners.now().getTime() - 86_400_000);
  const { epoch } = await hookOf(id);
  await storesOf(sql)`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at)
    values (${id % 256}, ${id}, ${epoch}, 50, ${since})`;
  await suspend(pathOf(app));
  const page = (await owner.browser.open(`/webhooks/${id}`, { Accept: 'text/html' })).text;
  assert.match(page, />Suspended</);
  assert.doesNotMatch(page, />Delivering<|id="enable"|>(?:Send test|Retry now|Recover)</);
  assert.match(page, />Keep disabled after the suspension</);
  assert.match(
    (await owner.browser.open(`/stores/${owner.storeId}/overview`, { Accept: 'text/html' })).text,
    />Suspended</,
  );
  await resume(pathOf(app));
  const health = (await call('GET', `/webhooks/${id}/health`, { token: platformToken })).body;
  assert.deepEqual(
    [health['is_active'], health['consecutive_failures'], health['failing_since'], health['state']],
    ['1', 0, null, 'ok'],
  );
});

test('a pull webhook is not deleted as unattended while its app is suspended, and a day after the end', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const id = await newHook(owner, access, { is_held: '1', url: null });
  const parts = openInternalEvents({ baseUrl: ISSUER });
  const { purge } = createUnattendedPurge({
    ...parts,
    sql: storesOf(sql),
    announce: parts.announceChanges,
    unattendedHours: 24,
  });
  const purgeAfter = (hours: number) => purge(1, new Date(owners.now().getTime() + hours * 3_600_000));
  const later = await newHook(owner, (await letIn(owner, await newApp())).access, { is_held: '1', url: null });
  await storesOf(sql)`update webhook set listened_at = listened_at - interval '1 minute' where id = ${id}`;
  await suspend(pathOf(app));
  assert.equal(await purgeAfter(25), 1, 'it is in the way of no other');
  assert.equal((await call('GET', `/webhooks/${later}`, { token: platformToken })).status, 404);
  await storesOf(sql)`update webhook set listened_at = listened_at - interval '1 day' where id = ${id}`;
  await resume(pathOf(app));
  assert.equal(await purgeAfter(23), 0, 'the day begins with the end of the suspension');
  const racing = await transaction(storesOf(sql), async (tx) => {
    await tx`update webhook set is_active = false, inactive_reason = 'suspended' where id = ${id}`;
    const purging = purgeAfter(25);
    await until(
      () => waitingForLocks(storesOf(sql)),
      (count) => count > 0,
    );
    return { purging };
  });
  assert.equal(await racing.purging, 0, 'a purge that found the webhook before the suspension');
  await storesOf(sql)`update webhook set is_active = true, inactive_reason = null where id = ${id}`;
  assert.equal(await purgeAfter(25), 1);
});

// Requests that began before the suspension.

/**
 * A running request of an app, or of a person about its webhook. `app`, `store`: its status if it began before the suspension of this; null for
 * any, absent if it is not affected. `inHome`: it waits for the store of the home database.
 */
type Race = {
  app?: number | null;
  store?: number | null;
  inHome?: true;
  prepare: (app: App, owner: Owner, access: string) => Promise<() => Promise<{ status: number }>>;
};
const declare = ({ credentials }: App) => {
  const body = { webhook_url: 'https://app.example.com/events' };
  return call('PATCH', `/clients/${credentials.client_id}`, { token: platformToken, body });
};
const RACES: Readonly<Record<string, Race>> = {
  'a new webhook': {
    app: 403,
    store: 409,
    prepare: async (_, owner, access) => () =>
      call('POST', `/stores/${owner.storeId}/webhooks`, { token: access, body: { ...HOOK, ...toApp } }),
  },
  'a new url of a webhook of a person': {
    app: 403,
    prepare: async (_, owner, access) => {
      const id = await newHook(owner, platformToken);
      return () => call('PATCH', `/webhooks/${id}`, { token: access, body: toApp });
    },
  },
  'enabling, by the app': {
    app: 403,
    store: 409,
    prepare: async (_, owner, access) => {
      const id = await newHook(owner, access, { is_active: '0' });
      return () => call('PATCH', `/webhooks/${id}`, { token: access, body: { is_active: '1' } });
    },
  },
  'enabling, by the store': {
    app: 409,
    store: 409,
    prepare: async (_, owner, access) => {
      const id = await newHook(owner, access, { is_active: '0' });
      return () => call('PATCH', `/webhooks/${id}`, { token: platformToken, body: { is_active: '1' } });
    },
  },
  'the consent of another store': {
    app: null,
    prepare: async ({ credentials }) => {
      const second = await newOwner();
      return () => second.browser.consent(asking({ client_id: credentials.client_id }));
    },
  },
  'the consent of the store': {
    store: 409,
    inHome: true,
    prepare:
      async ({ credentials }, owner) =>
      () =>
        owner.browser.consent(asking({ client_id: credentials.client_id })),
  },
  'a declared webhook': { app: null, store: null, prepare: async (app) => () => declare(app) },
  'an event for a declared webhook that failed': {
    store: null,
    prepare: async (app, owner) => {
      await declare(app);
      await storesOf(sql)`
        update webhook set is_active = false, inactive_reason = 'failures' where id = ${await declaredOf(app, owner)}`;
      return disconnecting(owner);
    },
  },
  'enabling, by a consent for the account': {
    store: null,
    prepare: async ({ credentials }, owner, access) => {
      await newHook(owner, access);
      await (
        await disconnecting(owner)
      )();
      const asked = asking({ client_id: credentials.client_id, scope: 'user_full_access' });
      return () => owner.browser.consent(asked, { resume: '1' });
    },
  },
};

/** Returns how many webhooks of the app, or to its urls, are active. */
const activeOf = async ({ id }: App): Promise<number> =>
  (await storesOf(sql)`select from webhook where is_active and (client = ${id} or url = ${toApp.url})`).length;

const grantsOf = async ({ id }: App): Promise<number> =>
  (await homeOf(sql)`select from access_grant where client = ${id} and scope <> 'user_full_access'`).length;

for (const what of ['app', 'store'] as const)
  for (const [race, { [what]: expected, inHome = false, prepare }] of Object.entries(RACES)) {
    if (expected === undefined) continue;
    test(`a request that began before the suspension of the ${what} leaves nothing active: ${race}`, async () => {
      const [owner, app] = [await newOwner(), await newApp()];
      const { access } = await letIn(owner, app);
      const start = await prepare(app, owner, access);
      const handle = what === 'app' || inHome ? homeOf(sql) : storesOf(sql);
      const running = await transaction(handle, async (tx) => {
        const [table, id] = what === 'app' ? ['client', app.id] : ['store', owner.storeId];
        const suspendIn = (db: Queryable) => db`update ${db(table)} set suspended_reason = ${REASON} where id = ${id}`;
        await suspendIn(tx);
        await tx`select from webhook where ${what === 'store'} and store_id = ${owner.storeId} order by id for no key update`;
        const request = start();
        await until(
          () => waitingForLocks(handle),
          (count) => count > 0,
        );
        // The store of the home database, if it is another one, was suspended before its copy.
        if (handle !== homeOf(sql)) await suspendIn(homeOf(sql));
        return { request };
      });
      const { status } = await running.request;
      if (expected !== null) assert.equal(status, expected);
      assert.equal(await activeOf(app), 0);
      assert.equal(await grantsOf(app), 1, 'no other grant was given');
    });
  }

test('the suspension of a store waits for a webhook that is being enabled, and disables it', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const id = await newHook(owner, (await letIn(owner, app)).access, { is_active: '0' });
  const running = await transaction(storesOf(sql), async (tx) => {
    await tx`update webhook set is_active = true where id = ${id}`;
    const suspension = suspend(pathOfStore(owner));
    await until(
      () => waitingForLocks(storesOf(sql)),
      (count) => count > 0,
    );
    return { suspension };
  });
  await running.suspension;
  assert.equal(await reasonOf(id), 'suspended');
});

test('a replacement of a registration that began before the suspension is refused', async () => {
  const { id, path, token } = await register();
  const metadata = { client_id: id, client_name: 'Renamed', redirect_uris: [REDIRECT] };
  const running = await transaction(homeOf(sql), async (tx) => {
    await tx`update client set suspended_reason = ${REASON} where client_id = ${id}`;
    const replacing = manage('PUT', path, token, metadata);
    await until(
      () => waitingForLocks(homeOf(sql)),
      (count) => count > 0,
    );
    return { replacing };
  });
  assert.deepEqual(await running.replacing, [401, 'invalid_token']);
});

/** A request that fails before the transaction around it ends fails the test where it is awaited, not as unhandled. */
function awaitedLater<T>(request: Promise<T>): Promise<T> {
  request.catch(() => undefined);
  return request;
}

test(
  'a suspension waits for a webhook that is being created, and disables it',
  inOneDatabase('the row of the store is in another database'),
  async () => {
    const [owner, app] = [await newOwner(), await newApp()];
    const { access } = await letIn(owner, app);
    const both = await transaction(sql, async (tx) => {
      await tx`select from store where id = ${owner.storeId} for update`;
      const creation = call('POST', `/stores/${owner.storeId}/webhooks`, {
        token: access,
        body: { ...HOOK, ...toApp },
      });
      await until(
        () => waitingForLocks(sql),
        (count) => count === 1,
      );
      const suspension = awaitedLater(suspend(pathOf(app)));
      await until(
        () => waitingForLocks(sql),
        (count) => count === 2,
      );
      return { creation, suspension };
    });
    const { status, body } = await both.creation;
    await both.suspension;
    assert.deepEqual([status, await reasonOf(Number(body['id']))], [201, 'suspended']);
  },
);

test(
  'a suspension and an end of access at the same time lock the app before its webhooks',
  inOneDatabase('the webhooks are in another database'),
  async () => {
    const [owner, app] = [await newOwner(), await newApp({ declares: true })];
    const { access } = await letIn(owner, app);
    const id = await newHook(owner, access);
    const running = await transaction(sql, async (tx) => {
      await tx`update client set suspended_reason = ${REASON} where id = ${app.id}`;
      const disabling = awaitedLater(suspend(`/operator/people/${owner.userId}`));
      await until(
        () => waitingForLocks(sql),
        (count) => count > 0,
      );
      await tx`select from webhook where client = ${app.id} order by shard, id for no key update`;
      return { disabling };
    });
    await running.disabling;
    assert.equal(await reasonOf(id), 'suspended');
  },
);

test('webhooks that the end of an access disabled are enabled by a consent after the suspension, not by its end', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  const { access } = await letIn(owner, app);
  const id = await newHook(owner, access);
  const revoke = `/account/connected/${await owners.grantOf(owner)}/revoke`;
  await owner.browser.post(revoke, hiddenIn(await owner.browser.open('/account'), revoke));
  await suspend(pathOf(app));
  await resume(pathOf(app));
  assert.equal(await reasonOf(id), 'access_ended');
  assert.equal(
    (await owner.browser.consent(asking({ client_id: app.credentials.client_id }), { resume: '1' })).status,
    303,
  );
  assert.equal(await reasonOf(id), 'active');
});
