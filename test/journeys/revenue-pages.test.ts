/** The pages of snapshots show the curve of the days before; JSON and XML neither have it nor wait for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startTestApp } from '../setup/app.ts';

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
