/** Recurring revenue, day by day: new, expansion, contraction and churn. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { internalProperties } from '#catalog/internal-types.ts';
import { eraseResource } from '#events/erase/erasure.ts';
import { shardOf } from '#core/ids.ts';
import { euros, snapshotsOf, startRevenue, type Snapshot } from '../setup/revenue.ts';
import { startTestApp } from '../setup/app.ts';

const revenue = await startRevenue();
const { addStore, publish, round, texts } = revenue;

const last = async (storeId: number): Promise<Snapshot['currencies']> =>
  (await snapshotsOf(revenue, storeId)).at(-1)?.currencies ?? [];

const unmoved = { new: 0, expansion: 0, contraction: 0, churn: 0, reactivation: 0 };
const currency = (currency_code: string, active_count: number, mrr: number, moves: Record<string, number> = {}) => ({
  currency_code,
  mrr,
  active_count,
  ...unmoved,
  ...moves,
});

const app = await startTestApp({ roles: ['serve'], env: { LOG_LEVEL: 'silent' } });
const { sql, storeId } = app;
const snapshots = `/stores/${storeId}/subscription_mrr_snapshots`;

/** Snapshot `n` is that of the day `n` after the first one; its id has a digit more from the tenth on. */
async function add(n: number, body: string): Promise<void> {
  await sql`
    insert into resource (shard, store_id, type, id, version, modified_at, is_dated, event_id, head_event_id, time_zone,
      base_url, body)
    values (${shardOf(storeId)}, ${storeId}, 'subscription_mrr_snapshot', ${String(n)}, 1, now(), false, ${n}, ${n}, 'UTC',
      ${app.baseUrl}, ${body})`;
}
const dayOf = (n: number): string => new Date(Date.UTC(2027, 0, n)).toISOString().slice(0, 10);
const textOf = (n: number): string =>
  JSON.stringify({ id: n, date: dayOf(n), currencies: [{ currency_code: 'EUR', mrr: n, active_count: 1 }] });

const get = (path: string, accept: string): Promise<Response> => app.api('GET', path, { headers: { Accept: accept } });
async function pageOf(path: string): Promise<string> {
  const response = await get(path, 'text/html');
  assert.equal(response.status, 200);
  return response.text();
}
const daysOf = (page: string): string[] =>
  [...page.matchAll(/<td><time datetime="([^"]*)"/g)].map(([, day = '']) => day);

for (let n = 1; n <= 100; n += 1) await add(n, textOf(n));

// Snapshots

test("a day is reported when it has ended in the store's zone, and once", async () => {
  const store = await addStore('Europe/Berlin');
  await publish(store, '2027-03-01T10:00:00Z', euros('a', '19.99'));
  assert.equal(await round(store, '2027-03-01T23:09:59Z'), 0);
  assert.equal(await round(store, '2027-03-01T23:10:00Z'), 1);
  assert.equal(await round(store, '2027-03-01T23:10:00Z'), 0);
  const [event] = await revenue.sql<{ id: number }[]>`
    select id from event where store_id = ${store} and resource_type = 'subscription_mrr_snapshot'`;
  assert.deepEqual(await texts(store), [
    `{"id":${event?.id},"date":"2027-03-01","currencies":[{"currency_code":"EUR","mrr":19.99,"active_count":1,"new":19.99,` +
      '"expansion":0,"contraction":0,"churn":0,"reactivation":0}],"date_created":"2027-03-02T00:10:00+0100"}',
  ]);
});

test('snapshots can be filtered by all their properties', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-03-01T10:00:00Z', euros('a', 1));
  await round(store, '2027-03-02T00:10:00Z');
  const [snapshot = {}] = await snapshotsOf(revenue, store);
  assert.deepEqual(Object.keys(snapshot), Object.keys(internalProperties('subscription_mrr_snapshot') ?? {}));
});

test('a store without a subscription has no snapshots', async () => {
  const store = await addStore('UTC');
  assert.equal(await round(store, '2027-03-10T12:00:00Z'), 0);
  assert.deepEqual(await texts(store), []);
});

test('new, growing, shrinking, ending and returning subscriptions are counted apart', async () => {
  const store = await addStore('UTC');
  const day = async (n: number, ...changes: Parameters<typeof euros>[]) => {
    await publish(store, `2027-04-0${n}T10:00:00Z`, ...changes.map((change) => euros(...change)));
    await round(store, `2027-04-0${n + 1}T00:10:00Z`);
    return last(store);
  };
  assert.deepEqual(await day(1, ['a', 10], ['b', 20]), [currency('EUR', 2, 30, { new: 30 })]);
  assert.deepEqual(await day(2, ['a', 15], ['b', 12.5]), [
    currency('EUR', 2, 27.5, { expansion: 5, contraction: 7.5 }),
  ]);
  assert.deepEqual(await day(3, ['a', 15, { is_active: '0' }]), [currency('EUR', 1, 12.5, { churn: 15 })]);
  assert.deepEqual(await day(4, ['a', 16], ['c', 1]), [currency('EUR', 3, 29.5, { new: 1, reactivation: 16 })]);
  assert.deepEqual(await day(5, ['b', 12.5, { currency_code: 'USD' }]), [
    currency('EUR', 2, 17, { churn: 12.5 }),
    currency('USD', 1, 12.5, { new: 12.5 }),
  ]);
  assert.deepEqual(await day(6, ['b', 12.5]), [
    currency('EUR', 3, 29.5, { reactivation: 12.5 }),
    currency('USD', 0, 0, { churn: 12.5 }),
  ]);
  assert.deepEqual(await day(7), [currency('EUR', 3, 29.5)]);
});

test('a subscription counts from its first day on, and no longer on its last', async () => {
  const store = await addStore('UTC');
  const dates = { start_date: '2027-05-30', end_date: '2027-06-02T00:00:00+0000' };
  await publish(store, '2027-05-28T10:00:00Z', euros('a', 10, dates), euros('b', 1, { frequency: 'now and then' }));
  assert.equal(await round(store, '2027-06-03T00:10:00Z'), 6);
  const days = (await snapshotsOf(revenue, store)).map(({ date, currencies: [one] }) => [
    date,
    one?.active_count,
    one?.mrr,
  ]);
  assert.deepEqual(days, [
    ['2027-05-28', 1, 0],
    ['2027-05-29', 1, 0],
    ['2027-05-30', 2, 10],
    ['2027-05-31', 2, 10],
    ['2027-06-01', 2, 10],
    ['2027-06-02', 1, 0],
  ]);
});

test('of the versions of a day the last one counts', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-07-01T10:00:00Z', euros('a', 10), euros('a', 11));
  await publish(store, '2027-07-01T11:00:00Z', euros('a', 12));
  await round(store, '2027-07-02T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 1, 12, { new: 12 })]);
});

test('an erased subscription counts as ended that day, and may return', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-10-01T10:00:00Z', euros('a', 10), euros('b', 5));
  const key = { shard: shardOf(store), storeId: store, type: 'subscription' as const, id: 'a' };
  const caches = { announce: async () => {}, forget: () => {} };
  const now = new Date('2027-10-02T10:00:00Z');
  await eraseResource({ sql: revenue.sql, caches }, key, { unmodified: () => {}, now });
  await round(store, '2027-10-03T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 1, 5, { churn: 10 })]);
  await publish(store, '2027-10-03T10:00:00Z', euros('a', 7));
  await round(store, '2027-10-04T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 2, 12, { reactivation: 7 })]);
});

test('a missed week is reported later, each day as it was', async () => {
  const store = await addStore('UTC');
  for (const n of [1, 2, 5]) await publish(store, `2027-08-0${n}T12:00:00Z`, euros('a', n));
  await round(store, '2027-08-08T00:10:00Z');
  const days = (await snapshotsOf(revenue, store)).map(({ date, currencies: [one] }) => [date.slice(-2), one?.mrr]);
  assert.deepEqual(days, [
    ['01', 1],
    ['02', 2],
    ['03', 2],
    ['04', 2],
    ['05', 5],
    ['06', 5],
    ['07', 5],
  ]);
});

test('sums have all their digits, also beyond the precision of JavaScript numbers', async () => {
  const store = await addStore('UTC');
  const many = Array.from({ length: 3 }, (_, n) => euros(`s${n}`, '999999999999999.000001'));
  await publish(store, '2027-09-01T10:00:00Z', ...many, euros('tenth', 0.1), euros('fifth', 0.2));
  await round(store, '2027-09-02T00:10:00Z', { settings: { ...revenue.settings, termsPerChunk: 2 } });
  assert.match((await texts(store))[0] ?? '', /"mrr":2999999999999997\.300003,"active_count":5,/);
});

test('loaded subscriptions are the opening balance of the next snapshot, and their later changes are counted', async () => {
  const store = await addStore('Europe/Berlin');
  const since = { start_date: '2020-01-01' };
  await revenue.load(store, '2027-07-01T10:00:00Z', euros('a', 10, since), euros('b', 20, since));
  await round(store, '2027-07-02T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 2, 30)]);
  await publish(store, '2027-07-02T10:00:00Z', euros('a', 15, since), euros('b', 20, { ...since, is_active: false }));
  await round(store, '2027-07-03T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 1, 15, { expansion: 5, churn: 20 })]);
});

test('a change on the day of the load is a movement of that day', async () => {
  const store = await addStore('UTC');
  await revenue.load(store, '2027-07-01T10:00:00Z', euros('a', 10), euros('b', 20));
  await publish(store, '2027-07-01T11:00:00Z', euros('a', 12), euros('b', 20, { is_active: false }), euros('c', 1));
  await round(store, '2027-07-02T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 2, 13, { expansion: 2, churn: 20, new: 1 })]);
});

test('a load beside published subscriptions adds to the balance without a movement, also while days wait for their snapshots', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-07-01T10:00:00Z', euros('a', 10));
  await revenue.load(store, '2027-07-03T10:00:00Z', euros('b', 20));
  await round(store, '2027-07-04T00:10:00Z');
  await round(store, '2027-07-04T00:10:00Z');
  await round(store, '2027-07-04T00:10:00Z');
  const days = (await snapshotsOf(revenue, store)).map(({ date, currencies }) => [date, currencies]);
  assert.deepEqual(days, [
    ['2027-07-01', [currency('EUR', 2, 30, { new: 10 })]],
    ['2027-07-02', [currency('EUR', 2, 30)]],
    ['2027-07-03', [currency('EUR', 2, 30)]],
  ]);
});

test('a loaded subscription that begins or ends later is counted when it does', async () => {
  const store = await addStore('UTC');
  const [begins, ends] = [euros('a', 10, { start_date: '2027-07-03' }), euros('b', 20, { end_date: '2027-07-03' })];
  await revenue.load(store, '2027-07-01T10:00:00Z', begins, ends);
  const balances: unknown[] = [];
  for (const n of [2, 3, 4]) {
    await round(store, `2027-07-0${n}T00:10:00Z`);
    balances.push(await last(store));
  }
  assert.deepEqual(balances, [
    [currency('EUR', 1, 20)],
    [currency('EUR', 1, 20)],
    [currency('EUR', 1, 10, { new: 10, churn: 20 })],
  ]);
});

test('a later version that is loaded is a movement of its day', async () => {
  const store = await addStore('UTC');
  const dated = (total: number, day: number) => euros('a', total, { date_modified: `2027-06-0${day}T00:00:00Z` });
  await revenue.load(store, '2027-07-01T10:00:00Z', dated(10, 1));
  await round(store, '2027-07-02T00:10:00Z');
  await revenue.load(store, '2027-07-02T10:00:00Z', dated(16, 2));
  await round(store, '2027-07-03T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 1, 16, { expansion: 6 })]);
});

test('several versions of one subscription are loaded without a movement', async () => {
  const store = await addStore('UTC');
  const dated = (id: string, total: number, day: number, more = {}) =>
    euros(id, total, { date_modified: `2027-06-0${day}T00:00:00Z`, ...more });
  await revenue.load(store, '2027-07-01T10:00:00Z', dated('a', 10, 1), dated('b', 20, 1));
  await revenue.load(store, '2027-07-01T10:00:00Z', dated('a', 15, 2), dated('b', 20, 2, { is_active: false }));
  await round(store, '2027-07-02T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 1, 15)]);
});

test('a version that is loaded over a published one is a movement', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-07-01T10:00:00Z', euros('a', 10));
  await round(store, '2027-07-02T00:10:00Z');
  const [published] = await revenue.sql<{ dated: Date }[]>`
    update resource set is_dated = true, dated_at = modified_at where store_id = ${store} and id = 'a' returning dated_at as dated`;
  assert.ok(published);
  await revenue.load(store, '2027-07-02T10:00:00Z', euros('a', 16, { date_modified: '2027-07-02T00:00:00Z' }));
  await round(store, '2027-07-03T00:10:00Z');
  assert.deepEqual(await last(store), [currency('EUR', 1, 16, { expansion: 6 })]);
});

// Charts

test("a snapshot's page draws the ninety days up to it", async () => {
  const page = await pageOf(`${snapshots}/95`);
  const days = daysOf(page);
  assert.deepEqual([days.length, days[0], days.at(-1)], [90, dayOf(95), dayOf(6)]);
  assert.match(page, /<svg\s+role="img"/);
  assert.match(page, /€95\.00 .*5 Apr 2027.*€89\.00 more .*6 Jan 2027/);
});

test('the page of the collection draws the days that it lists', async () => {
  assert.deepEqual(daysOf(await pageOf(`${snapshots}?limit=3&offset=10`)), [dayOf(13), dayOf(12), dayOf(11)]);
});

test('a property that no snapshot has is rejected instead of finding nothing', async () => {
  for (const [query, status] of [
    ['date:greaterthan=2027-02-01', 200],
    ['day=2027-02-01', 400],
    ['order=currencies', 400],
  ] as const)
    assert.equal((await get(`${snapshots}?${query}`, 'application/json')).status, status, query);
});

test('other resources have no curve', async () => {
  assert.doesNotMatch(await pageOf(`/stores/${storeId}/changelogs`), /<svg/);
});

test('JSON and XML do not wait for the curve', async () => {
  await add(101, textOf(101));
  // Drawing the curve of the last snapshot would fail at the one before it.
  await sql`update resource set body = '' where type = 'subscription_mrr_snapshot' and id = '100'`;
  for (const accept of ['application/hal+json', 'application/hal+xml', 'application/vnd.siren+json']) {
    assert.equal((await get(`${snapshots}/101`, accept)).status, 200, accept);
  }
  assert.equal((await get(`${snapshots}/101`, 'text/html')).status, 500);
});

test('the curve ends where its days would exceed the size of a page', async () => {
  const pad = 'x'.repeat(4_500_000);
  for (const n of [102, 103]) await add(n, JSON.stringify({ ...(JSON.parse(textOf(n)) as object), pad }));
  for (const n of [104, 105]) await add(n, textOf(n));
  assert.deepEqual(daysOf(await pageOf(`${snapshots}/105`)), [dayOf(105), dayOf(104), dayOf(103)]);
});
