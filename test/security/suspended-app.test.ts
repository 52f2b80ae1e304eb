/** An app that an operator has suspended: nothing of it works in any way until the suspension ends, and what it had comes back then. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUnattendedPurge } from '#webhooks/pull/unattended.ts';
import { announceChanges, openInternalEvents } from '#server/publishing.ts';
import { transaction } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { faultsOf } from '../setup/caller.ts';
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

const isSuspended = async ({ id }: App): Promise<boolean> =>
  (await homeOf(sql)`select from client where id = ${id} and suspended_reason is not null`).length === 1;

test('the form needs a reason of one line, its own nonce, and a person who has just confirmed who they are', async () => {
  const [app, another] = [await newApp(), await newApp()];
  const path = pathOf(app);
  for (const reason of ['', '  ', 'two\nlines', '…', 'x'.repeat(201)])
    assert.equal((await post(path, { reason })).status, 422, JSON.stringify(reason));
  const elsewhere = hiddenIn(await operator.open(pathOf(another)), pathOf(another));
  for (const hidden of [elsewhere, { ...hiddenIn(await operator.open(path), path), act: 'resume' }])
    assert.equal((await operator.post(path, { ...hidden, reason: REASON })).status, 403);
  const shown = await operator.open(path);
  const { act = '', nonce = '' } = hiddenIn(shown, path);
  assert.deepEqual([shown.status, act], [200, 'suspend']);
  assert.equal((await operator.post(path, { act, nonce })).status, 422, 'without a reason');
  for (const unknown of ['apps/unknown', 'people/999999999'])
    assert.equal((await operator.open(`/operator/${unknown}`)).status, 404, unknown);
  const fields = { act, nonce, reason: ` ${REASON} ` };
  owners.wait(11 * 60_000);
  const asked = await operator.post(path, fields);
  assert.deepEqual([asked.status, await isSuspended(app)], [403, false]);
  const confirmed = await factor.confirm(path, asked);
  assert.deepEqual([confirmed.status, await isSuspended(app)], [303, true]);
  assert.equal((await operator.post(path, { ...fields, reason: 'Another' })).status, 303);
  const [row] = await homeOf(sql)<{ reason: string | null }[]>`
    select suspended_reason as reason from client where id = ${app.id}`;
  assert.equal(row?.reason, REASON, 'a second click changes nothing');
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
  const api = async (path: string, at = origin): Promise<[number, unknown]> => {
    const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${tokens.access}` };
    const { status, text } = await send(at + path, { headers });
    return [status, faultsOf({ status, headers: new Headers(), body: JSON.parse(text) as never })[0] ?? 'ok'];
  };
  const page = async (path: string): Promise<[number, unknown]> => {
    const { status, location } = await owner.browser.open(path);
    return [status, location];
  };
  const consentPath = `/authorize?${new URLSearchParams(asking(credentials)).toString()}`;
  const byPlatform = { Authorization: `Bearer ${platformToken}` };
  const refused = [400, 'unauthorized_client'];
  type Way = [way: string, use: () => Promise<[number, unknown]>, before: unknown[], meanwhile: unknown[]];
  const ways: Way[] = [
    ['its store', () => api(`/stores/${owner.storeId}`), [200, 'ok'], [403, '- app_suspended']],
    ['another process', () => api(`/stores/${owner.storeId}`, second), [200, 'ok'], [403, '- app_suspended']],
    ['its webhook', () => api(`/webhooks/${hook}`), [200, 'ok'], [403, '- app_suspended']],
    [
      'refresh',
      () => oauthPost('/token', { grant_type: 'refresh_token', refresh_token: tokens.refresh, ...credentials }),
      [200, 'ok'],
      refused,
    ],
    [
      'an unknown code',
      () =>
        oauthPost('/token', { grant_type: 'authorization_code', code: 'x', redirect_uri: REDIRECT, ...credentials }),
      [400, 'invalid_grant'],
      refused,
    ],
    [
      'client_credentials',
      () => oauthPost('/token', { grant_type: 'client_credentials', scope: 'platform', ...credentials }),
      [400, 'unauthorized_client'],
      refused,
    ],
    [
      'a poll of its device',
      () => oauthPost('/token', { grant_type: DEVICE_GRANT, device_code: device_code ?? '', ...credentials }),
      [400, 'authorization_pending'],
      refused,
    ],
    [
      'a new device',
      () => oauthPost('/device_authorization', { scope: 'store_full_access', ...credentials }),
      [200, 'ok'],
      refused,
    ],
    [
      'introspection by the app',
      () => oauthPost('/introspect', { token: tokens.access, ...credentials }),
      [200, true],
      refused,
    ],
    [
      'introspection of its access token',
      () => oauthPost('/introspect', { token: tokens.access }, byPlatform),
      [200, true],
      [200, false],
    ],
    [
      'introspection of its refresh token',
      () => oauthPost('/introspect', { token: tokens.refresh }, byPlatform),
      [200, true],
      [200, false],
    ],
    [
      'a wrong secret',
      () =>
        oauthPost('/token', {
          grant_type: 'refresh_token',
          refresh_token: tokens.refresh,
          ...credentials,
          client_secret: 'x',
        }),
      [401, 'invalid_client'],
      [401, 'invalid_client'],
    ],
    ['/authorize', () => page(consentPath), [200, null], [400, null]],
    ['/device', () => page(`/device?user_code=${user_code}`), [200, null], [403, null]],
    ['its registration', () => manage('GET', managed.path, managed.token), [200, 'ok'], [403, 'app_suspended']],
  ];
  const results = async (): Promise<Record<string, unknown>> => {
    const found: Record<string, unknown> = {};
    for (const [way, use] of ways) {
      found[way] = await use();
      // A poll within the interval of a device gets another error.
      owners.wait(6_000);
    }
    return found;
  };
  const paths = [pathOf(app), `/operator/apps/${managed.id}`];
  const before = Object.fromEntries(ways.map(([way, , expected]) => [way, expected]));
  assert.deepEqual(await results(), before);
  for (const path of paths) await suspend(path);
  assert.deepEqual(await results(), Object.fromEntries(ways.map(([way, , , expected]) => [way, expected])));
  for (const path of paths) await resume(path);
  assert.deepEqual(await results(), before);
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
    announce: announceChanges,
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

/** Changes of a running request of an app, or of a person about its webhook, each with what has to be inactive afterwards. */
type Race = (
  app: App,
  owner: Owner,
  access: string,
) => Promise<{ start: () => Promise<{ status: number }>; refused: number | undefined }>;
const toApp = { url: 'https://app.example.com/moved' };
const RACES: Readonly<Record<string, Race>> = {
  'a new webhook': async (_, owner, access) => ({
    start: () => call('POST', `/stores/${owner.storeId}/webhooks`, { token: access, body: { ...HOOK, ...toApp } }),
    refused: 403,
  }),
  'a new url of a webhook of a person': async (_, owner, access) => {
    const id = await newHook(owner, platformToken);
    return { start: () => call('PATCH', `/webhooks/${id}`, { token: access, body: toApp }), refused: 403 };
  },
  'enabling, by the app': async (_, owner, access) => {
    const id = await newHook(owner, access, { is_active: '0' });
    return { start: () => call('PATCH', `/webhooks/${id}`, { token: access, body: { is_active: '1' } }), refused: 403 };
  },
  'enabling, by the store': async (_, owner, access) => {
    const id = await newHook(owner, access, { is_active: '0' });
    const body = { is_active: '1' };
    return { start: () => call('PATCH', `/webhooks/${id}`, { token: platformToken, body }), refused: 409 };
  },
  'the consent of another store': async ({ credentials }) => {
    const second = await newOwner();
    return { start: () => second.browser.consent(asking({ client_id: credentials.client_id })), refused: undefined };
  },
  'a declared webhook': async ({ credentials }) => ({
    start: () =>
      call('PATCH', `/clients/${credentials.client_id}`, {
        token: platformToken,
        body: { webhook_url: 'https://app.example.com/events' },
      }),
    refused: undefined,
  }),
};

/** Returns how many webhooks of the app, or to its urls, are active. */
const activeOf = async ({ id }: App): Promise<number> =>
  (await storesOf(sql)`select from webhook where is_active and (client = ${id} or url = ${toApp.url})`).length;

for (const [what, prepare] of Object.entries(RACES)) {
  test(`a request that began before the suspension leaves nothing active: ${what}`, async () => {
    const [owner, app] = [await newOwner(), await newApp()];
    const { access } = await letIn(owner, app);
    const { start, refused } = await prepare(app, owner, access);
    const running = await transaction(homeOf(sql), async (tx) => {
      await tx`update client set suspended_reason = ${REASON} where id = ${app.id}`;
      const request = start();
      await until(
        () => waitingForLocks(homeOf(sql)),
        (count) => count > 0,
      );
      return { request };
    });
    const { status } = await running.request;
    if (refused !== undefined) assert.equal(status, refused);
    assert.equal(await activeOf(app), 0);
    assert.equal((await sql`select from access_grant where client = ${app.id}`).length, 1, 'no other grant was given');
  });
}

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
      const suspension = suspend(pathOf(app));
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
      const disabling = suspend(`/operator/people/${owner.userId}`);
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
