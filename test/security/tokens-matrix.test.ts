/**
 * Every address of src/server/routes.ts within a store, with every method, requested by all callers without access to that store:
 * nothing of it is shown, nothing in it changes. A new route is in the matrix as soon as it is in the table.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { METHODS } from '#http/route.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { startFurnishedApp } from '../setup/app-with-resources.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { fillIn, resourceTable, routeTable } from './route-table.ts';
import { passwords } from '../setup/passwords.ts';
import { respond } from '../setup/send.ts';

/** Part of every name of the other store, so that each answer that shows one of them contains it. */
const MARK = 'quetzal';

const app = await startFurnishedApp();
const { sql, baseUrl, clock, platformToken } = app;
const now = clock.now();

// Ada's app has access to her store A. Bob has store B and an app in it.
const password = 'correct horse battery';
const email = `bob@${MARK}.example`;
const { id: bob } = await createUser(sql, passwords, { email, password, now });
const shop = { name: `Store ${MARK}`, domain: `${MARK}.example`, email, timeZone: 'UTC', now };
const { id: storeId } = await createStore(sql, shop);
await addMember(sql, { storeId, userId: bob, role: 'owner', now });
const redirectUris = [`https://${MARK}.example/cb`];
const { client_id: clientId } = await createClient(sql, { name: `App ${MARK}`, redirectUris, trusted: false, now });

const newToken = async (grant: { userId: number; storeId: number }): Promise<string> =>
  (await letAppIn(app, { ...grant, clientId, now })).access_token;
const own = await newToken({ userId: bob, storeId });

/** Gives an app, and it alone, access to an account instead of one store. */
async function newAccountToken(grant: { userId: number; storeId: number }): Promise<string> {
  const token = await newToken(grant);
  await sql`
    update access_grant set scope = 'user_full_access', store_id = null, date_used = ${now}
    where id = (select max(id) from access_grant where user_id = ${grant.userId})`;
  return token;
}
const accountToken = await newAccountToken({ userId: app.userId, storeId: app.storeId });
const ownAccount = await newAccountToken({ userId: bob, storeId });
const expired = await newToken({ userId: bob, storeId });
await sql`
  update access_token set date_expires = ${now}
  where grant_id = (select max(id) from access_grant where user_id = ${bob})`;

const sent = (method: string, path: string, token: string | null, body?: unknown): Promise<Response> =>
  respond(baseUrl + path, {
    method,
    headers: {
      'SERVICE-API-VERSION': '1',
      ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
async function made(path: string, token: string, body: unknown, status = 201): Promise<Record<string, unknown>> {
  const response = await sent('POST', path, token, body);
  assert.equal(response.status, status, path);
  return (await response.json()) as Record<string, unknown>;
}

const url = `https://${MARK}.example/hook`;
const webhook = { name: `Hook ${MARK}`, format: 'json', url, encryption_key: MARK, event_resource: 'transaction' };
const event = { event: 'transaction/created', resource: { id: 77, text: MARK, _embedded: { 'svc:items': [{}] } } };
const { id: webhookId } = await made(`/stores/${storeId}/webhooks`, own, webhook);
// A pull webhook, with a pending delivery.
const { id: heldId } = await made(`/stores/${storeId}/webhooks`, own, { ...webhook, url: null, is_held: '1' });
const { id: sampleId } = await made(`/webhooks/${String(heldId)}/test`, own, {}, 202);
const listened = { ...webhook, name: 'Own', url: null, encryption_key: 'a key of mine', is_held: '1' };
const { id: ownHeldId } = await made(`/stores/${app.storeId}/webhooks`, app.token, listened);
const { id: eventId } = await made(`/stores/${storeId}/events`, platformToken, event);
// Cancelled, so that another may be started.
const recoveries = `/webhooks/${String(webhookId)}/recover`;
const { id: recoveryId } = await made(recoveries, own, { since: now.toISOString() }, 202);
await made(`/webhooks/${String(webhookId)}/recoveries/${String(recoveryId)}/cancel`, own, {}, 200);

// Completed, so that it may be resent.
const [delivery] = await sql<{ id: number }[]>`
  with over as (
    delete from delivery where webhook_id = ${Number(webhookId)} and event_id = ${Number(eventId)} returning *
  )
  insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
  select shard, id, store_id, webhook_id, event_id, 'failed', 1, ${now} from over
  returning id`;

// Pending, so that it may be retried.
const { id: waitingEventId } = await made(`/stores/${storeId}/events`, platformToken, {
  ...event,
  resource: { ...event.resource, id: 78 },
});
const [waiting] = await sql<{ id: number }[]>`
  select id from delivery where webhook_id = ${Number(webhookId)} and event_id = ${Number(waitingEventId)}`;

const { id: invitationId } = await made(`/stores/${storeId}/invitations`, platformToken, { role: 'member' });
const [grant] = await sql<{ id: number }[]>`select min(id) as id from access_grant where user_id = ${bob}`;

/** The ids of Bob's objects that an address may have. */
const named: Readonly<Record<string, string>> = {
  store_id: String(storeId),
  webhook_id: String(webhookId),
  event_id: String(eventId),
  recovery_id: String(recoveryId),
  invitation_id: String(invitationId),
  delivery_id: String(delivery?.id),
  user_id: String(bob),
  client_id: clientId,
  grant_id: String(grant?.id),
  collection: 'transactions',
  id: '77',
  relation: 'items',
};

const held = { ...named, webhook_id: String(heldId), delivery_id: String(sampleId) };
const isHeld = (path: string) => /\/(?:stream|answer)$/.test(path);
type Named = Readonly<Record<string, string>>;
const namedIn = (path: string): Named =>
  isHeld(path) ? held : path.endsWith('/retry') ? { ...named, delivery_id: String(waiting?.id) } : named;
/** The ids of Ada's objects, whose tokens the callers have. */
const ownIn = (path: string): Named => (isHeld(path) ? { ...app.named, webhook_id: String(ownHeldId) } : app.named);

const routes = routeTable(baseUrl);
const resources = routes.filter((route) => route.kind === 'resource');

/** A body as valid as possible, so that only the token is rejected. */
function bodyOf(method: string, path: string): unknown {
  if (method === 'GET' || method === 'HEAD' || method === 'DELETE') return undefined;
  if (path.endsWith('/members')) return { user: app.userId, role: 'owner' };
  if (path.endsWith('/links')) return { user: bob };
  if (path.endsWith('/invitations')) return { role: 'owner' };
  if (/\/users\/(?:\d+|:user_id)$/.test(path)) return { email: null, external_id: 'taken over' };
  if (path.includes('/clients/')) return { name: 'Taken over', redirect_uris: ['https://taken.example.com/callback'] };
  if (path.includes('/members/')) return { role: 'member' };
  if (path.includes('/events')) return event;
  if (path.endsWith('/answer')) return { response_code: 200, duration: 1 };
  if (path.endsWith('/recover')) return { since: now.toISOString() };
  if (/\/(?:rotate_key|test|cancel|resend|retry|retry_pending|send_webhooks|sample_events|sandbox_store)$/.test(path))
    return {};
  return path.includes('/webhooks') ? { ...webhook, name: 'Taken over' } : { name: 'Taken over' };
}

/** All rows, of all stores. */
const rows = (): Promise<unknown> => sql`
  select
    (select json_agg(t order by id) from store t)::text as stores,
    (select json_agg(t order by store_id, user_id) from membership t)::text as members,
    (select json_agg(t order by id) from invitation t)::text as invitations,
    (select json_agg(t order by id) from webhook t)::text as webhooks,
    (select json_agg(t order by id) from resource t)::text as resources,
    (select json_agg(t order by id) from users t)::text as users,
    (select json_agg(t order by id) from client t)::text as clients,
    (select json_agg(t order by id) from access_grant t where t.user_id = ${bob})::text as grants,
    (select count(*) from event)::int as events,
    (select count(*) from delivery)::int as deliveries`;

/** No request of the matrix changes them. */
const present = await rows();

const strangers = { 'a token of store A': app.token, "a token of A's account": accountToken };
const nobodies = { 'a token of B that has expired': expired, 'no token': null };

async function assertNothingSaid(response: Response, what: string): Promise<void> {
  const said = `${[...response.headers].join(' ')} ${await response.text()}`;
  assert.ok(!said.includes(MARK), `${what}: ${said}`);
}

const inside = resources.filter(({ path, isDocumentation }) => path.includes(':') && !isDocumentation);
test('there are addresses within a store', () => assert.ok(inside.length >= 12, String(inside.length)));

for (const route of inside) {
  for (const method of ['HEAD', ...METHODS]) {
    const isServed = method === 'HEAD' ? 'GET' in route.operations : method in route.operations;
    test(`${method} ${route.path} is rejected for callers without access to the store`, async () => {
      const path = fillIn(route, namedIn(route.path));
      for (const [who, token] of Object.entries(strangers)) {
        const response = await sent(method, path, token, bodyOf(method, path));
        assert.ok((isServed ? [404] : [405]).includes(response.status), `${who}: ${response.status}`);
        await assertNothingSaid(response, who);
      }
      for (const [who, token] of Object.entries(nobodies)) {
        const response = await sent(method, path, token, bodyOf(method, path));
        assert.equal(response.status, isServed ? 401 : 405, who);
        await assertNothingSaid(response, who);
      }
      assert.deepEqual(await rows(), present);
    });
  }
}

/** Like Bob's ids, but of objects that never existed. */
const missing: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(named).map(([name, id]) => {
    if (name === 'collection' || name === 'relation') return [name, id];
    if (name === 'client_id') return [name, id.slice(0, -1) + (id.endsWith('a') ? 'b' : 'a')];
    return [name, name === 'id' ? '404' : String(Number(id) + 256_000)];
  }),
);

/** The status and the body, without the `logref` that differs in each error. */
async function answered(method: string, path: string, token: string): Promise<string> {
  const response = await sent(method, path, token, bodyOf(method, path));
  return `${response.status} ${(await response.text()).replaceAll(/"logref":"[^"]*"/g, '')}`;
}

const operationsAt = resourceTable(baseUrl)
  .filter(({ path, isDocumentation }) => path.includes(':') && !isDocumentation)
  .flatMap(({ path, operations }) =>
    METHODS.flatMap((method) => {
      const operation = operations[method];
      return operation === undefined ? [] : [{ method, path, access: operation.access }];
    }),
  );

for (const { method, path } of operationsAt) {
  test(`${method} ${path} is the same 404 for objects of others and for objects that never existed`, async () => {
    const [others, never] = [fillIn({ path }, namedIn(path)), fillIn({ path }, missing)];
    for (const [who, token] of Object.entries(strangers)) {
      const response = await answered(method, others, token);
      assert.match(response, /^404 /, who);
      assert.equal(response, await answered(method, never, token), who);
    }
  });
}

// Below an object of the caller 403 is right if the whole operation needs another scope: it is the same for every id.
for (const { method, path, access } of operationsAt) {
  const [, ...below] = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  for (const name of below.filter((one) => missing[one] !== named[one])) {
    test(`${method} ${path} below an object of the caller hides whether another :${name} exists`, async () => {
      const [others, never] = [namedIn(path), missing].map((ids) =>
        fillIn({ path }, { ...ownIn(path), [name]: ids[name] ?? '' }),
      );
      for (const [who, token] of Object.entries(strangers)) {
        const response = await answered(method, others ?? '', token);
        assert.match(response, access === 'token' || access === 'person' ? /^404 / : /^403 /, who);
        assert.equal(response, await answered(method, never ?? '', token), who);
      }
      assert.deepEqual(await rows(), present);
    });
  }
}

for (const { path, operations } of resources.filter((route) => !route.path.includes(':'))) {
  for (const method of METHODS.filter((name) => name in operations)) {
    test(`${method} ${path} shows and changes nothing of a store that the token is not for`, async () => {
      for (const [who, token] of Object.entries({ ...strangers, ...nobodies })) {
        const response = await sent(method, path, token, bodyOf(method, path));
        const possible = method === 'GET' ? [200, 401, 403] : [401, 403];
        assert.ok(possible.includes(response.status), `${who}: ${response.status}`);
        await assertNothingSaid(response, who);
      }
      assert.deepEqual(await rows(), present);
    });
  }
}

const pages = routes.filter(({ kind, operations }) => kind === 'raw' && 'GET' in operations);
// The page that undoes a change of address is opened by a mailed link, without a session.
for (const { path } of pages.filter((route) => route.path.startsWith('/account') && !route.path.endsWith('/undo'))) {
  test(`a token opens no page: ${path}`, async () => {
    for (const token of [own, accountToken, platformToken]) {
      const response = await sent('GET', path.replaceAll(/:\w+/g, clientId), token);
      assert.deepEqual([response.status, response.headers.get('location')?.split('?', 1)[0]], [303, '/sign-in']);
    }
  });
}

const withinStore = operationsAt.filter(({ path }) => /:(?:store|webhook)_id/.test(path));

for (const { method, path } of withinStore) {
  test(`${method} ${path} is a 403 for a token of an account if the store is suspended`, async () => {
    const at = fillIn({ path }, namedIn(path));
    await sql`update store set suspended_reason = 'spam' where id = ${storeId}`;
    const response = await sent(method, at, ownAccount, bodyOf(method, at));
    await sql`update store set suspended_reason = null where id = ${storeId}`;
    const text = await response.text();
    assert.deepEqual([response.status, /"code":"(\w+)"/.exec(text)?.[1]], [403, 'store_suspended']);
    assert.deepEqual(await rows(), present);
  });
}

/** These end all others: they come last. The end of the membership also ends the grant. */
const ENDS = ['/stores/:store_id/members/:user_id', '/stores/:store_id', '/users/:user_id'];
const inItsTurn = (method: string) =>
  method === 'DELETE' ? inside.toSorted((a, b) => ENDS.indexOf(a.path) - ENDS.indexOf(b.path)) : inside;

// Last, because it deletes the whole store: proves that the same addresses do exist.
test('the same addresses answer a member of the store, or the platform', async () => {
  await sql`update store set sandbox_of = ${bob} where id = ${storeId}`;
  for (const method of ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] as const) {
    for (const route of inItsTurn(method)) {
      if (!(method === 'HEAD' ? 'GET' in route.operations : method in route.operations)) continue;
      // It needs an OpenID provider: external-sign-in.test.ts.
      if (route.path.endsWith('/by_identity')) continue;
      // What only people do is in invitations.test.ts.
      if (operationsAt.some(({ path: at, access }) => at === route.path && access === 'person')) continue;
      const path = fillIn(route, namedIn(route.path));
      // Two addresses end the same access.
      await sql`update access_grant set date_revoked = null where id = ${Number(named['grant_id'])}`;
      const statuses = [];
      for (const token of [own, platformToken])
        statuses.push((await sent(method, path, token, bodyOf(method, path))).status);
      assert.ok(
        statuses.some((status) => status >= 200 && status < 300),
        `${method} ${route.path}: ${String(statuses)}`,
      );
    }
  }
});
