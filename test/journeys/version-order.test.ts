/** Which version is the latest: by date_modified if both have one, else by arrival. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';

const app = await startTestApp({ roles: ['serve'] });
const { storeId, platformToken } = app;

type Event = { resource_version: number };

let id = 0;
const NONE = undefined;
/** Publishes versions of a new customer, each list of dates as one array, and returns the version numbers. */
async function publish(...arrays: (string | undefined)[][]): Promise<{ versions: number[]; latest: number }> {
  id += 1;
  const versions: number[] = [];
  let n = 0;
  for (const dates of arrays) {
    const body = dates.map((date) => {
      n += 1;
      return { event: 'customer/modified', resource: { id, n, ...(date !== undefined && { date_modified: date }) } };
    });
    const response = await app.api('POST', `/stores/${storeId}/events`, { token: platformToken, body });
    assert.equal(response.status, 200, await response.clone().text());
    const { _embedded } = (await response.json()) as { _embedded: { 'svc:events': Event[] } };
    versions.push(..._embedded['svc:events'].map((event) => event.resource_version));
  }
  const latest = await app.api('GET', `/stores/${storeId}/customers/${id}`);
  return { versions, latest: ((await latest.json()) as { n: number }).n };
}

test('a version with a date follows one without, however old the date is', async () => {
  assert.deepEqual(await publish([NONE], ['2020-01-01T00:00:00+0000']), { versions: [1, 2], latest: 2 });
  assert.deepEqual(await publish([NONE, '2020-01-01T00:00:00+0000']), { versions: [1, 2], latest: 2 });
});

test('a date is compared with the newest date so far, also if a version without one came between', async () => {
  const [old, new_] = ['2026-01-01T00:00:00+0000', '2026-02-01T00:00:00+0000'];
  assert.deepEqual(await publish([new_], [NONE], [old]), { versions: [1, 2, 0], latest: 2 });
  assert.deepEqual(await publish([new_, NONE, old]), { versions: [1, 2, 0], latest: 2 });
});

test('a version without a date is the latest, though an older one comes with it', async () => {
  const [old, new_] = ['2026-01-01T00:00:00+0000', '2026-02-01T00:00:00+0000'];
  assert.deepEqual(await publish([new_], [NONE, old]), { versions: [1, 2, 0], latest: 2 });
});

test('of two versions with the same date the later is the latest', async () => {
  const date = '2026-01-01T00:00:00+0000';
  assert.deepEqual(await publish([date], [date]), { versions: [1, 2], latest: 2 });
});

test('a date without an offset is in the time zone of the store', async () => {
  // The store is in Berlin: 12:30 there is 10:30 in UTC.
  assert.deepEqual(await publish(['2026-06-01T10:45:00Z'], ['2026-06-01T12:30:00']), { versions: [1, 0], latest: 1 });
  assert.deepEqual(await publish(['2026-06-01T10:15:00Z'], ['2026-06-01T12:30:00']), { versions: [1, 2], latest: 2 });
});

test('a date in the future does not make later versions stale', async () => {
  const [future, past] = ['2999-01-01T00:00:00Z', '2026-06-01T00:00:00Z'];
  assert.deepEqual(await publish([future], [past]), { versions: [1, 2], latest: 2 });
  assert.deepEqual(await publish([past, future, past]), { versions: [1, 2, 3], latest: 3 });
  assert.deepEqual(await publish([past], [future, '2026-05-01T00:00:00Z']), { versions: [1, 2, 0], latest: 2 });
  // Lists compare the date that the representation shows.
  const listed = await app.api('GET', `/stores/${storeId}/customers?date_modified=${future}`);
  const { _embedded } = (await listed.json()) as { _embedded: { 'svc:customers': { id: number }[] } };
  assert.deepEqual(
    _embedded['svc:customers'].map((customer) => customer.id),
    [id],
  );
});
