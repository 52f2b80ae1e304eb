/** Recurring revenue, day by day: new, expansion, contraction and churn. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { internalProperties } from '#catalog/internal-types.ts';
import { eraseResource } from '#events/erase/erasure.ts';
import { shardOf } from '#core/ids.ts';
import { euros, snapshotsOf, startRevenue, type Snapshot } from '../setup/revenue.ts';

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
