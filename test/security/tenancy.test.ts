/** A token of another store gives no access: every link of one store's graph, with every method. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { actionsIn, fill } from '../representations/crawl/actions.ts';
import { readers } from '../representations/crawl/readers.ts';
import { walk } from '../representations/crawl/walk.ts';
import { inhabit } from '../setup/populated-app.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;
/** Shared by all stores, or different for each caller under one address. */
const SHARED = /^\/(?:$|stores$|users$|clients$|token$|rels(?:\/|$)|docs(?:\/|$)|openapi\.json$|register$|authorize$)/;

const fixture = await inhabit();
const [hal, , siren] = readers;
assert.ok(hal !== undefined && siren !== undefined);
/** The addresses of Ada's graph, and the actions there. */
const graph = new Map<string, ReturnType<typeof actionsIn>>();
/** Actions at addresses of their own, which cannot be read. */
const actionsByPath = new Map<string, ReturnType<typeof actionsIn>[number]>();

before(async () => {
  for (const token of [fixture.tokens.store, fixture.tokens.user]) {
    const { pages } = await walk(fixture, siren, { token });
    for (const [href, text] of pages) {
      const { pathname } = new URL(href, fixture.origin);
      if (SHARED.test(pathname) || !text.startsWith('{')) continue;
      const actions = Map.groupBy(actionsIn(text), (action) => new URL(action.href).pathname);
      graph.set(pathname, actions.get(pathname) ?? []);
      for (const [place, [action]] of actions)
        if (place !== pathname && action !== undefined) actionsByPath.set(place, action);
    }
  }
});

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

test('the graph is large enough', () => {
  assert.ok(graph.size > 40, `${graph.size} addresses`);
  for (const kind of [
    /^\/webhooks\/\d+$/,
    /^\/stores\/\d+\/events\/\d+$/,
    /^\/users\/\d+$/,
    /^\/grants\/\d+$/,
    /\/items$/,
  ]) {
    assert.ok(
      [...graph.keys()].some((path) => kind.test(path)),
      String(kind),
    );
  }
});

for (const method of METHODS) {
  test(`${method} with another store’s token is a 404 at every link of the graph, and changes nothing`, async () => {
    const present = await tables();
    for (const [path, actions] of graph) {
      const action = actions.find((one) => one.method === method);
      const hasBody = method !== 'GET' && method !== 'HEAD' && method !== 'DELETE';
      const body = action === undefined ? {} : fill(action, true);
      const response = await fixture.call(method, path, { token: fixture.tokens.foreign, ...(hasBody && { body }) });
      const text = await response.text();
      const possible = [404, ...(method === 'GET' || method === 'HEAD' || action !== undefined ? [] : [405])];
      assert.ok(possible.includes(response.status), `${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    }
    assert.equal(await tables(), present);
  });
}

test('actions on resources of another store are rejected, at the addresses of actions', async () => {
  for (const kind of ['rotate_key', 'test', 'recover', 'resend', 'retry', 'retry_pending', 'send_webhooks']) {
    assert.ok(
      [...actionsByPath.keys()].some((path) => path.endsWith(`/${kind}`)),
      kind,
    );
  }
  const present = await tables();
  for (const [path, action] of actionsByPath) {
    for (const all of [false, true]) {
      const response = await fixture.call('POST', path, { token: fixture.tokens.foreign, body: fill(action, all) });
      assert.equal(response.status, 404, `${path}: ${await response.text()}`);
    }
    const unknown = await fetch(fixture.origin + path, { method: 'POST', headers: { 'SERVICE-API-VERSION': '1' } });
    assert.equal(unknown.status, 401, path);
    await unknown.arrayBuffer();
  }
  assert.equal(await tables(), present);
});

test('a signed-in person of another store has no access either', async () => {
  const headers = { Cookie: fixture.bobsBrowser.cookie() ?? '' };
  for (const path of graph.keys()) {
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

test('without a token, no part of the graph can be read', async () => {
  for (const path of graph.keys()) {
    const response = await fetch(fixture.origin + path, { headers: { 'SERVICE-API-VERSION': '1' } });
    await response.arrayBuffer();
    assert.equal(response.status, 401, path);
  }
});
