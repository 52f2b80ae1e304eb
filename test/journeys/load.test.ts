/** The history of a platform is loaded: it is read like all else, and no event, delivery or step is made of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { shardOf } from '#core/ids.ts';
import { pageOfResources, replaceResource } from '#events/erase/erasure-sql.ts';
import { loadItems } from '#events/load/load.ts';
import { startTestApp } from '../setup/app.ts';
import { createCaller, faultsOf, itemsOf, type Reply } from '../setup/caller.ts';
import { startReceiver } from '../setup/receiver.ts';
import { SEED } from '../setup/seed.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { sql, storeId, token, platformToken, clock } = app;
const call = createCaller(new URL(app.baseUrl).origin, new URL(app.baseUrl).origin);
const place = `/stores/${storeId}`;

const EARLY = '2020-03-01T10:00:00+0000';
const LATE = '2024-03-01T10:00:00+0000';

type Item = { type: string; resource: Record<string, unknown> };
type Result = {
  line: number;
  result: string;
  resource_version: number | null;
  errors: { code: string; field?: string }[];
  warnings: { code: string }[];
};

const order = (id: number | string, more: object = {}): Item => ({ type: 'transaction', resource: { id, ...more } });
const subscription = (id: number | string, more: object = {}): Item => ({
  type: 'subscription',
  resource: {
    id,
    is_active: true,
    frequency: '1m',
    currency_code: 'EUR',
    start_date: '2020-01-01',
    _embedded: { transaction_template: { total_order: 10 } },
    ...more,
  },
});

const load = (items: unknown, { path = 'load', as = platformToken } = {}): Promise<Reply> =>
  call('POST', `${place}/${path}`, { token: as, body: items });

async function loadLines(text: string): Promise<Reply> {
  const response = await fetch(`${app.baseUrl}/stores/${storeId}/load`, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${platformToken}`,
      'Content-Type': 'application/x-ndjson',
    },
    body: text,
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Reply['body'] };
}

const resultsOf = (reply: Reply): Result[] => itemsOf(reply, 'load_results') as unknown as Result[];
const outcomesOf = (reply: Reply): string[] => resultsOf(reply).map(({ result }) => result);
const countsOf = ({ body: { loaded, kept, refused } }: Reply) => ({ loaded, kept, refused });

const publish = (event: string, resource: object): Promise<Reply> =>
  call('POST', `${place}/events`, { token: platformToken, body: { event, resource } });
const read = (path: string): Promise<Reply> => call('GET', place + path, { token });

async function written(): Promise<{ events: number; deliveries: number }> {
  const [row] = await sql<{ events: number; deliveries: number }[]>`
    select (select count(*) from event)::int as events,
      ((select count(*) from delivery) + (select count(*) from delivery_done))::int as deliveries`;
  assert.ok(row);
  return row;
}

/** Returns the steps of a subscription that were derived, in their order. */
async function stepsOf(id: number | string): Promise<unknown[]> {
  const reply = await read(`/subscription_events?subscription_id=${id}&order=id&limit=100`);
  return itemsOf(reply, 'subscription_events').map(({ event }) => event);
}

for (const resource of ['transaction', 'subscription', 'subscription_event'])
  await call('POST', `${place}/webhooks`, {
    token,
    body: {
      name: resource,
      format: 'json',
      encryption_key: 'k',
      url: `${receiver.url}/${resource}`,
      event_resource: resource,
    },
  });

test('a loaded version is read with its own date, and makes no event, delivery or step', async () => {
  const before = await written();
  const items = [order('h1', { date_modified: EARLY, total: 12.5 }), subscription('h1', { date_modified: EARLY })];
  const reply = await load(items);
  assert.equal(reply.status, 200);
  assert.deepEqual(countsOf(reply), { loaded: 2, kept: 0, refused: 0 });
  assert.deepEqual(await written(), before);
  const { body } = await read('/transactions/h1');
  assert.deepEqual([body['date_modified'], body['total']], [EARLY, 12.5]);
  const listed = await read('/transactions?date_modified:lessthan=2020-03-02T00:00:00Z');
  assert.deepEqual(
    itemsOf(listed, 'transactions').map(({ id }) => id),
    ['h1'],
  );
});

test('the first change after a load is compared with the loaded version', async () => {
  await load([subscription('h2', { date_modified: EARLY })]);
  const changed = { ...subscription('h2').resource, end_date: '2030-01-01', date_modified: LATE };
  assert.equal((await publish('subscription/modified', changed)).status, 201);
  assert.deepEqual(await stepsOf('h2'), ['cancelled']);
  assert.equal((await read('/subscriptions/h2')).body['end_date'], '2030-01-01');
});

test('a version replaces the stored one only if both are dated and its own date is later', async () => {
  const outcome = async (item: Item): Promise<string> => outcomesOf(await load([item])).join();
  assert.equal(await outcome(order('k', { date_modified: LATE, n: 1 })), 'loaded');
  assert.equal(await outcome(order('k', { date_modified: LATE, n: 2 })), 'kept');
  assert.equal(await outcome(order('k', { date_modified: EARLY, n: 3 })), 'kept');
  assert.equal(await outcome(order('k', { n: 4 })), 'kept');
  assert.equal(await outcome(order('k', { date_modified: '2025-01-01T00:00:00Z', n: 5 })), 'loaded');
  assert.equal((await read('/transactions/k')).body['n'], 5);
  await publish('transaction/modified', { id: 'k', n: 6 });
  assert.equal(await outcome(order('k', { date_modified: '2026-01-01T00:00:00Z', n: 7 })), 'kept');
  assert.equal((await read('/transactions/k')).body['n'], 6);
});

test('of several versions in one request the newest is loaded', async () => {
  const dates = ['2021', '2023', '2022'].map((year) => `${year}-01-01T00:00:00+0000`);
  const reply = await load(dates.map((date_modified) => order('s', { date_modified })));
  assert.deepEqual(outcomesOf(reply), ['kept', 'loaded', 'kept']);
  assert.equal((await read('/transactions/s')).body['date_modified'], dates[1]);
});

test('a version without a date before a dated one does not hide it', async () => {
  await load([order('u', { date_modified: EARLY })]);
  assert.deepEqual(outcomesOf(await load([order('u'), order('u', { date_modified: LATE })])), ['kept', 'loaded']);
});

test('what was erased later does not come back, and a later version does', async () => {
  await load([order('e', { date_modified: EARLY })]);
  assert.equal((await call('DELETE', `${place}/transactions/e`, { token: platformToken })).status, 204);
  assert.deepEqual(
    outcomesOf(await load([order('e', { date_modified: EARLY }), order('e2', { date_modified: EARLY })])),
    ['kept', 'loaded'],
  );
  assert.deepEqual(outcomesOf(await load([order('e')])), ['kept']);
  assert.equal((await read('/transactions/e')).status, 404);
  const later = new Date(clock.now().getTime() + 60_000).toISOString();
  const back = resultsOf(await load([order('e', { date_modified: later })]));
  assert.deepEqual(
    back.map(({ result, resource_version: version }) => [result, version]),
    [['loaded', 2]],
  );
  assert.equal((await read('/transactions/e')).status, 200);
});

test('the erasure of a loaded resource is finished, also with events before and after the load', async () => {
  const middle = '2022-03-01T10:00:00+0000';
  await publish('transaction/created', { id: 'h', date_modified: EARLY, secret: 'to be erased' });
  await load([
    order('f', { date_modified: EARLY }),
    order('g', { date_modified: EARLY }),
    order('h', { date_modified: middle }),
  ]);
  await publish('transaction/modified', { id: 'g', date_modified: LATE, secret: 'to be erased' });
  for (const id of ['f', 'g', 'h'])
    assert.equal((await call('DELETE', `${place}/transactions/${id}`, { token: platformToken })).status, 204);
  const [left] = await sql<{ count: number }[]>`
    select count(*)::int as count from event where body like '%to be erased%'`;
  assert.equal(left?.count, 0);
});

test('the search for copies of an erased customer does not write an older body over a version that is loaded meanwhile', async () => {
  await load([order('copy', { date_modified: EARLY, name: 'older' })]);
  const shard = shardOf(storeId);
  const search = { shard, storeId, id: '1', dateErased: clock.now(), beforeEventId: null };
  const page = await pageOfResources(sql, { ...search, afterType: 'transaction', afterId: 'cop' }, ['older'], 1);
  assert.deepEqual(
    page.map(({ id, body }) => [id, body === null]),
    [['copy', false]],
  );
  await load([order('copy', { date_modified: LATE, name: 'newer' })]);
  const [found = assert.fail()] = page;
  await replaceResource(sql, { ...search, afterType: '', afterId: '' }, found, '{"id":"copy"}');
  assert.equal((await read('/transactions/copy')).body['name'], 'newer');
});

test('webhooks get a loaded version by a refeed', async () => {
  await load([order('r', { date_modified: EARLY, total: 7 })]);
  const reply = await call('POST', `${place}/transactions/r/send_webhooks`, { token, body: {} });
  assert.equal(reply.status, 202);
  const got = await until(
    async () => receiver.got.find(({ path, body }) => path === '/transaction' && body.includes('"r"')),
    (found) => found !== undefined,
  );
  assert.equal((JSON.parse(String(got?.body)) as { total: number }).total, 7);
  assert.equal((await publish('transaction/modified', { id: 'r', date_modified: LATE })).status, 201);
});

test('lines of JSON have a result each, by their number', async () => {
  const lines = [
    JSON.stringify(order('l1', { date_modified: EARLY })),
    '',
    '{"type":"transaction"',
    JSON.stringify({ type: 'changelog', resource: { id: 1 } }),
    JSON.stringify({ type: 'transaction', resource: { id: '' }, event: 'x' }),
    JSON.stringify(subscription('l6', { date_modified: EARLY, frequency: 'monthly' })),
    JSON.stringify({ type: 'subscription_event', resource: { id: 7 } }),
    '[]',
    `{"type":"transaction","resource":{"id":"l9","date_modified":"${EARLY}","total":12.50}}`,
  ];
  const reply = await loadLines(lines.join('\r\n'));
  assert.equal(reply.status, 200);
  assert.deepEqual(
    resultsOf(reply).map(({ line, result, errors, warnings }) => [
      line,
      result,
      [...errors, ...warnings].map(({ code, field = '' }: { code: string; field?: string }) =>
        `${code} ${field}`.trim(),
      ),
    ]),
    [
      [1, 'loaded', []],
      [3, 'refused', ['malformed_body']],
      [4, 'refused', ['invalid_value type']],
      [5, 'refused', ['unknown_property event', 'invalid_value resource.id']],
      [6, 'loaded', ['no_revenue resource.frequency']],
      [7, 'refused', ['native_event type']],
      [8, 'refused', ['invalid_value']],
      [9, 'loaded', []],
    ],
  );
  const response = await fetch(`${app.baseUrl}/stores/${storeId}/transactions/l9`, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` },
  });
  assert.match(await response.text(), /"total":12\.50/);
});

test('Prefer: return=minimal hides no result', async () => {
  const headers = { Prefer: 'return=minimal' };
  const reply = await call('POST', `${place}/load`, { token: platformToken, body: [{ type: 'order' }], headers });
  assert.deepEqual(countsOf(reply), { loaded: 0, kept: 0, refused: 1 });
  const published = { event: 'transaction/created', resource: { id: 'p' } };
  const events = await call('POST', `${place}/events`, { token: platformToken, body: [published], headers });
  assert.equal(events.status, 204);
  assert.equal((await read('/transactions/p')).status, 200);
});

test('odd dates are warned about', async () => {
  const ahead = new Date(clock.now().getTime() + 7_200_000).toISOString();
  const items = [
    order('o1'),
    order('o2', { date_modified: ahead }),
    subscription('o3', { date_modified: EARLY, currency_code: null }),
  ];
  const results = resultsOf(await load(items));
  assert.deepEqual(
    results.map(({ warnings }) => warnings.map(({ code }) => code)),
    [['undated'], ['ahead'], ['no_currency']],
  );
  assert.deepEqual(
    resultsOf(await load(items)).flatMap(({ warnings }) => warnings),
    [],
  );
});

test('a dry run has the same results, and writes nothing', async () => {
  const items = [order('d', { date_modified: EARLY }), subscription('d', { date_modified: EARLY }), { type: 'order' }];
  const first = await load(items, { path: 'load?dry_run=1' });
  assert.deepEqual(countsOf(first), { loaded: 2, kept: 0, refused: 1 });
  assert.equal((await read('/transactions/d')).status, 404);
  const [terms] = await sql`select from subscription_term where subscription_id = 'd'`;
  assert.equal(terms, undefined);
  assert.deepEqual(resultsOf(await load(items)), resultsOf(first));
  assert.deepEqual(faultsOf(await load(items, { path: 'load?dry_run=yes' })), ['dry_run invalid_value']);
  assert.equal((await load(items, { path: 'load?dry_run=1&dry_run=0' })).status, 400);
});

test('a request has 1 to 10,000 items', async () => {
  assert.deepEqual(faultsOf(await load([])), ['body required']);
  assert.deepEqual(faultsOf(await loadLines('\n\n')), ['body required']);
  assert.match(JSON.stringify((await loadLines('\n'.repeat(10_002))).body), /more than 10000 blank lines/);
  const lines = (count: number): string => `{}\n`.repeat(count);
  assert.deepEqual(faultsOf(await loadLines(lines(10_001))), ['body too_many']);
  assert.deepEqual(countsOf(await loadLines(lines(10_000))), { loaded: 0, kept: 0, refused: 10_000 });
});

test('the faults of a line are about the line, and a long one is not parsed', async () => {
  const [broken, long] = resultsOf(await loadLines(`{"type":}\n{"type":"${'x'.repeat(2 * 1024 * 1024)}"}`));
  assert.match(JSON.stringify(broken?.errors), /The line is not valid JSON \(column 9: /);
  assert.match(JSON.stringify(long?.errors), /The line has more than 2097152 characters/);
});

test('a store that is erased during a load is a 404', async () => {
  const store = { name: 'S', domain: 's.example', email: 'a@example.com', time_zone: 'UTC' };
  const { body } = await call('POST', '/stores', { token: platformToken, body: store });
  const erased = Number(body['id']);
  const item = { line: 1, size: 0, read: () => order('x') };
  assert.equal((await call('DELETE', `/stores/${erased}`, { token: platformToken })).status, 204);
  const limits = { eventsPerRequest: 1_000, eventLimitBytes: 256 * 1024, eventDepth: 12 };
  const request = { storeId: erased, items: [item], timeZone: 'UTC', now: clock.now(), isDryRun: false };
  await assert.rejects(loadItems({ sql, baseUrl: app.baseUrl, limits }, request), { status: 404 });
});

test('many items are loaded in chunks', async () => {
  const items = Array.from({ length: 600 }, (_, n) => order(`c${n}`, { date_modified: EARLY }));
  assert.deepEqual(countsOf(await load(items)), { loaded: 600, kept: 0, refused: 0 });
  assert.deepEqual(countsOf(await load(items)), { loaded: 0, kept: 600, refused: 0 });
});

test('only the platform loads, and its link is only for it', async () => {
  assert.equal((await load([order(1)], { as: token })).status, 403);
  const missing = await call('POST', `/stores/${storeId + 1_000_000}/load`, { token: platformToken, body: [order(1)] });
  assert.equal(missing.status, 404);
  assert.equal((await read('')).body._links['svc:load'], undefined);
  const { body } = await call('GET', place, { token: platformToken });
  assert.equal(body._links['svc:load']?.href, `${app.baseUrl}${place}/load`);
});

/** Versions of two orders, of which some are loaded or published by one request; dates are days of a month, undated without. */
const version = fc.record({ id: fc.constantFrom('a', 'b'), day: fc.option(fc.integer({ min: 1, max: 5 })) });
const change = fc.record({
  by: fc.constantFrom('load', 'publish'),
  versions: fc.array(version, { minLength: 1, maxLength: 4 }),
});

test('after any loads and publishes the stored version is that of the model', async () => {
  let round = 0;
  const run = async (changes: readonly { by: string; versions: readonly { id: string; day: number | null }[] }[]) => {
    round += 1;
    /** `newest`: the latest day so far. A load replaces only a dated version. */
    const model = new Map<string, { n: string; day: number | null; newest: number }>();
    for (const [at, { by, versions }] of changes.entries()) {
      const resources = versions.map(({ id, day }, index) => ({
        id: `m${round}${id}`,
        n: `${at}.${index}`,
        ...(day !== null && { date_modified: `2022-01-0${day}T00:00:00Z` }),
      }));
      const reply =
        by === 'load'
          ? await load(resources.map((resource) => ({ type: 'transaction', resource })))
          : await call('POST', `${place}/events`, {
              token: platformToken,
              body: resources.map((resource) => ({ event: 'transaction/modified', resource })),
            });
      assert.equal(reply.status, 200);
      for (const [index, { id, n }] of resources.entries()) {
        const day = versions[index]?.day ?? null;
        const stored = model.get(id);
        const isNewer =
          stored === undefined ||
          (by === 'load'
            ? day !== null && stored.day !== null && day > stored.newest
            : day === null || day >= stored.newest);
        if (isNewer) model.set(id, { n, day, newest: Math.max(day ?? 0, stored?.newest ?? 0) });
      }
    }
    for (const [key, { n }] of model) assert.equal((await read(`/transactions/${key}`)).body['n'], n);
  };
  await fc.assert(fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 5 }), run), { numRuns: 40, seed: SEED });
});

test('a resource that is erased while it is loaded stays erased', async () => {
  const ids = Array.from({ length: 20 }, (_, n) => `gone${n}`);
  await load(ids.map((id) => order(id, { date_modified: EARLY })));
  for (const id of ids) {
    const [erased, loaded] = await Promise.all([
      call('DELETE', `${place}/transactions/${id}`, { token: platformToken }),
      untilDone(() => load([order(id, { date_modified: LATE })])),
    ]);
    assert.deepEqual([erased.status, loaded.status], [204, 200]);
    assert.equal((await read(`/transactions/${id}`)).status, 404, id);
  }
});

test('a store whose steps the platform publishes takes them, and a local date is in the zone of the store', async () => {
  const body = { subscription_events: 'published', time_zone: 'America/New_York' };
  assert.equal((await call('PATCH', place, { token: platformToken, body })).status, 200);
  const items = [
    { type: 'subscription_event', resource: { id: 'own', date_modified: '2022-01-01 10:00:00' } },
    order('local', { date_modified: '2022-01-01 10:00:00' }),
  ];
  assert.deepEqual(outcomesOf(await load(items)), ['loaded', 'loaded']);
  assert.deepEqual(outcomesOf(await load([order('local', { date_modified: '2022-01-01T14:59:00Z' })])), ['kept']);
  assert.deepEqual(outcomesOf(await load([order('local', { date_modified: '2022-01-01T15:01:00Z' })])), ['loaded']);
  await call('PATCH', place, { token: platformToken, body: { subscription_events: 'derived' } });
});

test('lines are a type of body for a load only', async () => {
  const response = await fetch(`${app.baseUrl}${place}/events`, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${platformToken}`,
      'Content-Type': 'application/x-ndjson',
    },
    body: '{}',
  });
  assert.equal(response.status, 415);
});

/** Repeats a request as a client does: a pause of the machine ends a transaction that holds locks, with a 503. */
async function untilDone(request: () => Promise<Reply>): Promise<Reply> {
  const reply = await request();
  return reply.status === 503 ? untilDone(request) : reply;
}

const changed = (id: string): Record<string, unknown> => ({ ...subscription(id).resource, note: 'x' });

test('a subscription that is loaded and published at once has one activation, or none if the load was first', async () => {
  const ids = Array.from({ length: 20 }, (_, n) => `race${n}`);
  const results = await Promise.all(
    ids.map(async (id) => {
      const [loaded, published] = await Promise.all([
        untilDone(() => load([subscription(id, { date_modified: EARLY })])),
        untilDone(() => publish('subscription/modified', { ...changed(id), date_modified: LATE })),
      ]);
      assert.deepEqual([loaded.status, published.status], [200, 201]);
      return { id, wasFirst: outcomesOf(loaded)[0] === 'loaded' };
    }),
  );
  for (const { id, wasFirst } of results) assert.deepEqual(await stepsOf(id), [wasFirst ? 'modified' : 'activated']);
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from subscription_term
    where shard = ${shardOf(storeId)} and store_id = ${storeId} and subscription_id like 'race%'`;
  assert.equal(row?.count, ids.length);
});
