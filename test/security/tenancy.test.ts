/**
 * What a token of another store or app, and a person of another store, cannot reach beyond the matrix of tokens-matrix.test.ts: an address
 * is refused before its body is read, and what is about an app is shown to that app and to people.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { METHODS, type Method } from '#http/route.ts';
import { inhabit } from '../setup/populated-app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import { ISSUER, REDIRECT } from './oauth-server.ts';
import { fillIn, resourceTable } from './route-table.ts';

const fixture = await inhabit();
/** What only an app and people see of the events about it; `spoken` is what its endpoints respond. */
const HOOK = 'canary-hook';
const SPOKEN = 'canary-response';
const receiver = await startReceiver();
receiver.answer((_got, response) => void response.end(SPOKEN));

const [completed] = await fixture.sql<{ id: number }[]>`
  select id from delivery_done where webhook_id = ${fixture.webhooks[0] ?? 0} limit 1`;
/** The ids of Ada's objects that an address may have. */
const ofAda = {
  store_id: String(fixture.alpha),
  user_id: String(fixture.adaId),
  webhook_id: String(fixture.webhooks[0]),
  delivery_id: String(completed?.id),
  event_id: String(fixture.events[0]),
  recovery_id: String(fixture.recovery),
  invitation_id: '1',
  client_id: fixture.client.client_id,
  grant_id: '1',
  collection: 'transactions',
  id: '1',
  relation: 'items',
};
const addressed = resourceTable(ISSUER).filter(({ path, isDocumentation }) => path.includes('/:') && !isDocumentation);

async function tables(): Promise<string> {
  const [row] = await fixture.sql<{ all: string }[]>`
    select md5(concat_ws('|', (select string_agg(s::text, ',' order by s.id) from store s),
      (select string_agg(w::text, ',' order by w.id) from webhook w),
      (select string_agg(m::text, ',' order by m.store_id, m.user_id) from membership m),
      (select string_agg(u::text, ',' order by u.id) from users u),
      (select string_agg(c::text, ',' order by c.id) from client c),
      (select string_agg((g.id, g.date_revoked)::text, ',' order by g.id) from access_grant g),
      (select count(*) from event), (select count(*) from resource), (select count(*) from delivery_done))) as all`;
  return row?.all ?? '';
}

/** Each is refused before or by the validation of a body: with 400, 413 or 415 for a caller with access. */
const INVALID_BODIES: readonly { body: string; headers?: Record<string, string> }[] = [
  { body: '{' },
  { body: '[[]]' },
  { body: '{"unknown":1,"unknown":2}' },
  { body: '{"unknown":1}' },
  { body: '<a/>', headers: { 'Content-Type': 'image/png' } },
  { body: '<!DOCTYPE a><a/>', headers: { 'Content-Type': 'application/xml' } },
  { body: 'a=%ff', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } },
  { body: '{}', headers: { 'Content-Encoding': 'gzip' } },
];

test('access to an address is decided before the body is read: no invalid one is more than a 404', async () => {
  const writes = addressed.flatMap((route) => {
    const methods = METHODS.filter((method) => method !== 'GET' && route.operations[method] !== undefined);
    return methods.map((method) => ({ method, path: fillIn(route, ofAda) }));
  });
  assert.ok(writes.length > 20, `${writes.length} operations`);
  const present = await tables();
  for (const { method, path } of writes) {
    for (const asked of INVALID_BODIES) {
      const response = await fixture.call(method, path, { token: fixture.tokens.foreign, ...asked });
      const where = `${method} ${path} ${JSON.stringify(asked)}: ${await response.text()}`;
      assert.equal(response.status, 404, where);
    }
  }
  assert.equal(await tables(), present);
});

test('a signed-in person of another store has no access either', async () => {
  const headers = { Cookie: fixture.bobsBrowser.cookie() ?? '' };
  const reads = addressed.filter(({ operations }) => operations.GET !== undefined && !operations.GET.isStream);
  assert.ok(reads.length > 20, `${reads.length} addresses`);
  for (const route of reads) {
    const path = fillIn(route, ofAda);
    const response = await fixture.call('GET', path, { accept: 'text/html', headers });
    await response.arrayBuffer();
    assert.equal(response.status, 404, path);
  }
});

test('at shared addresses each caller sees their own resources', async () => {
  for (const path of ['/', '/stores']) {
    const text = await (await fixture.call('GET', path, { token: fixture.tokens.foreign })).text();
    assert.ok(text.includes(`/stores/${fixture.foreign}`), path);
    for (const id of [fixture.alpha, fixture.beta]) assert.ok(!text.includes(`/stores/${id}"`), path);
    assert.ok(!text.includes(`/users/${fixture.adaId}"`), path);
  }
});

/** Lets an app that declares a webhook into Ada's store, which has a webhook for the events of apps; both get an event and a test. */
async function installGadget() {
  const { call, alpha, sql, tokens, browser, asking, redeem } = fixture;
  const made = async (path: string, body: object, token = tokens.platform) => {
    const response = await call('POST', path, { token, body });
    const text = await response.text();
    assert.ok(response.ok, `${path} ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
  const hook = { name: 'Of apps', format: 'json', encryption_key: 'a key', event_resource: 'app' };
  const ofPeople = await made(`/stores/${alpha}/webhooks`, { ...hook, url: `${receiver.url}/of-people` });
  const client = await made('/clients', {
    name: 'Gadget',
    redirect_uris: [REDIRECT],
    webhook_url: `${receiver.url}/${HOOK}`,
  });
  const credentials = { client_id: String(client['client_id']), client_secret: String(client['client_secret']) };
  const { location } = await browser.consent(asking({ client_id: credentials.client_id }));
  const { body } = await redeem(new URL(location ?? '').searchParams.get('code') ?? '', credentials);
  const token = String(body['access_token']);
  const [declared] = await sql<{ id: number }[]>`select id from webhook where is_for_app and store_id = ${alpha}`;
  const webhooks = [Number(declared?.id), Number(ofPeople['id'])];
  await made(`/webhooks/${webhooks[0]}/test`, { event: 'app/uninstalled' }, token);
  await made(`/webhooks/${webhooks[1]}/test`, {});
  const deliveries = await until(
    () => sql<{ id: number; webhookId: number; eventId: number }[]>`
      select id, webhook_id as "webhookId", event_id as "eventId" from delivery_done
      where webhook_id = any(${webhooks}::bigint[]) order by id`,
    ({ length }) => length === 4,
  );
  return { token, clientId: credentials.client_id, webhooks, deliveries };
}

type Gadget = Awaited<ReturnType<typeof installGadget>>;

/** The addresses of all resources, for each delivery of the events about apps. `isAboutApp`: others have nothing there to change. */
function addressesOf({ deliveries, clientId }: Gadget) {
  const { alpha, adaId, recovery } = fixture;
  const routes = resourceTable(ISSUER).filter(({ path }) => !/^\/(?:docs|rels)/.test(path));
  const each = deliveries.flatMap(({ id, webhookId, eventId }) => {
    const named = {
      store_id: String(alpha),
      user_id: String(adaId),
      webhook_id: String(webhookId),
      delivery_id: String(id),
      event_id: String(eventId),
      recovery_id: String(recovery),
      invitation_id: '999999999',
      client_id: clientId,
      grant_id: '999999999',
      collection: 'apps',
      id: String(eventId),
      relation: 'items',
    };
    return routes.map((route) => ({
      route,
      at: fillIn(route, named),
      isAboutApp: /:(?:webhook|event|delivery)_id|:id/.test(route.path),
    }));
  });
  return new Map(each.map((address) => [address.at, address])).values().toArray();
}

/** A body that is valid, or a version that is not the present one: what may be changed by others stays. */
const requestOf = (method: Method, at: string) => {
  if (method === 'GET') return {};
  if (method !== 'POST')
    return { headers: { 'If-Match': '"0"' }, ...(method !== 'DELETE' && { body: { name: 'Theirs' } }) };
  return { body: at.endsWith('/answer') ? { response_code: 200, duration: 1 } : {} };
};

/** Pages and filters with which lists show what they have. */
const QUERIES = ['', '?limit=100', '?limit=100&resource_type=app', '?limit=100&event=app/installed'];
const READS_ONLY = 'store_read events_read app:read';

test('no other app reads or sends anything that is about an app, at any route', async () => {
  const gadget = await installGadget();
  const { call, alpha, newCode, redeem, tokens } = fixture;
  await fixture.sql`
    update client set scopes = ${['store_full_access', 'webhooks', ...READS_ONLY.split(' ')]} where name = 'Mailer'`;
  const limited = async (scope: string) => String((await redeem(await newCode({ scope }))).body['access_token']);
  const callers = {
    'full access': tokens.store,
    'another app': tokens.neighbour,
    'the whole account': tokens.user,
    'limited to webhooks': await limited('webhooks'),
    'limited to reads': await limited(READS_ONLY),
    'another store': tokens.foreign,
  };
  // With the path before them: an event and a delivery may have the same id.
  const ids = gadget.deliveries.flatMap(({ id, eventId }) => [
    `/statuses/${id}`,
    `/events/${eventId}`,
    `/apps/${eventId}`,
  ]);
  const canaries = [HOOK, SPOKEN, ...ids, `/webhooks/${gadget.webhooks[0]}"`];
  const foundIn = (text: string, among: readonly string[]): string[] => among.filter((canary) => text.includes(canary));
  const addresses = addressesOf(gadget);
  const got = receiver.got.length;
  const present = await tables();
  let asked = 0;
  for (const [who, token] of Object.entries(callers)) {
    for (const { route, at, isAboutApp } of addresses) {
      const methods = METHODS.filter((method) => route.operations[method] !== undefined);
      for (const method of isAboutApp ? methods : methods.filter((one) => one === 'GET')) {
        for (const query of method === 'GET' && !isAboutApp ? QUERIES : ['']) {
          const response = await call(method, at + query, { token, ...requestOf(method, at) });
          const text = await response.text();
          asked += 1;
          const where = `${who}: ${method} ${at}${query}: ${response.status}`;
          // An error may repeat the address, which has the ids.
          assert.deepEqual(foundIn(text, response.ok ? canaries : [HOOK, SPOKEN]), [], where);
          if (/\/(?:statuses|events|apps)\/\d/.test(at)) assert.ok([403, 404].includes(response.status), where);
        }
      }
    }
  }
  assert.ok(asked > 500, `${asked} requests`);
  assert.deepEqual([await tables(), receiver.got.length], [present, got]);

  // The canaries are there: the app itself, people and the platform find them.
  const installed = gadget.deliveries.find(({ webhookId }) => webhookId === gadget.webhooks[0]);
  assert.ok(installed !== undefined);
  const seen = async (path: string, token: string) => (await call('GET', path, { token })).text();
  for (const token of [gadget.token, tokens.platform]) {
    const own = `/webhooks/${gadget.webhooks[0]}`;
    const delivery = await seen(`${own}/statuses/${installed.id}`, token);
    assert.ok(
      [gadget.clientId, HOOK, SPOKEN].every((part) => delivery.includes(part)),
      delivery,
    );
    assert.ok((await seen(`${own}/logs`, token)).includes(SPOKEN));
    const events: string = `/stores/${alpha}/events/${installed.eventId}`;
    assert.ok((await seen(`${events}/payload`, token)).includes(gadget.clientId));
    assert.ok((await seen(`${events}/statuses`, token)).includes(String(installed.id)));
  }
  // A list of events has those about the app that reads it.
  const totals = [gadget.token, tokens.platform, tokens.store].map(async (token) => {
    const installs = JSON.parse(await seen(`/stores/${alpha}/events?event=app/installed`, token)) as Record<
      string,
      unknown
    >;
    return installs['total_items'];
  });
  assert.deepEqual(await Promise.all(totals), ['1', '1', '0']);
  const headers = { Cookie: fixture.browser.cookie() ?? '' };
  const page = await call('GET', `/webhooks/${gadget.webhooks[0]}/logs`, { accept: 'text/html', headers });
  assert.ok((await page.text()).includes(SPOKEN));
});

test('a webhook for the events of apps keeps its resource, by which its deliveries are seen', async () => {
  const { call, alpha, tokens } = fixture;
  const hook = { name: 'Of apps', format: 'partner_automation', url: `${receiver.url}/kept`, event_resource: 'app' };
  const made = await call('POST', `/stores/${alpha}/webhooks`, { token: tokens.platform, body: hook });
  const { id } = (await made.json()) as { id: number };
  for (const event_resource of ['transaction', null]) {
    const refused = await call('PATCH', `/webhooks/${id}`, { token: tokens.platform, body: { event_resource } });
    assert.deepEqual([refused.status, (await refused.text()).includes('event_resource')], [400, true]);
  }
});

test('while a store is suspended, its app, an app with the account and its owner are refused at each of its addresses', async () => {
  const { call, sql, tokens, browser, adaId, alpha } = fixture;
  const suspend = (reason: string | null) =>
    homeOf(sql)`update store set suspended_reason = ${reason} where id = ${alpha}`;
  await suspend('It leaks data');
  const present = await tables();
  // The own membership is shown, so that a person can leave.
  const own = `/stores/${alpha}/members/${adaId}`;
  const ofStore = addressed.filter(({ path }) => /:(?:store|webhook)_id/.test(path));
  for (const route of ofStore) {
    const path = fillIn(route, ofAda).replace(ISSUER, '');
    for (const method of METHODS.filter((one) => route.operations[one] !== undefined)) {
      const asked = method === 'GET' || method === 'DELETE' ? {} : { body: '{}' };
      const byStore = await call(method, path, { token: tokens.store, ...asked });
      assert.match(await byStore.text(), /store_suspended/, `${method} ${path}`);
      const byAccount = await call(method, path, { token: tokens.user, ...asked });
      assert.ok([403, 404].includes(byAccount.status), `${byAccount.status} ${method} ${path}`);
    }
    if (route.operations.GET === undefined || route.operations.GET.isStream) continue;
    const { status, text } = await browser.open(path, { Accept: 'text/html' });
    assert.ok(path === own ? status === 200 : [403, 404].includes(status), `${status} ${path}`);
    assert.ok(text.includes('It leaks data'), path);
  }
  assert.equal(await tables(), present);
  await suspend(null);
});
