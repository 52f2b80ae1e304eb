/** Days of stores: of 23 and 25 hours, without a midnight, with two, and in a zone that changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayAt, endOfDay, nextDay } from '#events/revenue-sql.ts';
import { transaction } from '#db/pool.ts';
import { readTimeZone } from '#stores/store-document.ts';
import { euros, snapshotsOf, startRevenue } from '../setup/revenue.ts';

const revenue = await startRevenue();
const { addStore, publish, round } = revenue;

/** Returns days with their sums: `2027-03-28 10`. */
const daysOf = async (storeId: number): Promise<string[]> =>
  (await snapshotsOf(revenue, storeId)).map(({ date, currencies: [one] }) => `${date} ${one?.mrr ?? 0}`);

/** Asserts when a day becomes due, to the minute: none a minute before and one then. */
async function isDueAt(storeId: number, text: string): Promise<void> {
  const before = new Date(new Date(text).getTime() - 60_000).toISOString();
  assert.equal(await round(storeId, before), 0, `at ${before}`);
  assert.equal(await round(storeId, text), 1, `at ${text}`);
}

test('a day of 23 hours ends an hour earlier', async () => {
  const store = await addStore('Europe/Berlin');
  await publish(store, '2027-03-27T22:59:00Z', euros('a', 1));
  await publish(store, '2027-03-27T23:00:00Z', euros('a', 2));
  await publish(store, '2027-03-28T21:59:59Z', euros('a', 3));
  await publish(store, '2027-03-28T22:00:00Z', euros('a', 4));
  await round(store, '2027-03-28T00:00:00Z');
  await isDueAt(store, '2027-03-28T22:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-03-27 1', '2027-03-28 3']);
});

test('a day of 25 hours ends an hour later', async () => {
  const store = await addStore('Europe/Berlin');
  await publish(store, '2027-10-30T22:00:00Z', euros('a', 1));
  await publish(store, '2027-10-31T22:59:00Z', euros('a', 2));
  await publish(store, '2027-10-31T23:00:00Z', euros('a', 3));
  await isDueAt(store, '2027-10-31T23:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-10-31 2']);
});

test("a day whose midnight is skipped begins at one o'clock", async () => {
  const store = await addStore('America/Havana');
  await publish(store, '2027-03-14T04:59:59Z', euros('a', 1));
  await publish(store, '2027-03-14T05:00:00Z', euros('a', 2));
  await isDueAt(store, '2027-03-14T05:10:00Z');
  await isDueAt(store, '2027-03-15T04:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-03-13 1', '2027-03-14 2']);
});

test('a day that has its first hour twice is reported once', async () => {
  const store = await addStore('America/Havana');
  await publish(store, '2027-11-07T03:59:59Z', euros('a', 1));
  await publish(store, '2027-11-07T04:30:00Z', euros('a', 2));
  await publish(store, '2027-11-07T05:30:00Z', euros('a', 3));
  assert.equal(await round(store, '2027-11-07T05:30:00Z'), 1);
  await isDueAt(store, '2027-11-08T05:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-11-06 1', '2027-11-07 3']);
});

test('a store in CET has summer time', async () => {
  const store = await addStore('CET');
  await publish(store, '2027-07-01T21:59:59Z', euros('a', 1));
  await publish(store, '2027-07-01T22:00:00Z', euros('a', 2));
  await isDueAt(store, '2027-07-01T22:10:00Z');
  await isDueAt(store, '2027-07-02T22:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-07-01 1', '2027-07-02 2']);
});

test('months and years end at their calendar boundaries', async () => {
  const [store, other] = [await addStore('Asia/Kolkata'), await addStore('Asia/Kolkata')];
  await publish(store, '2028-02-28T12:00:00Z', euros('a', 1, { end_date: '2028-03-01' }));
  await round(store, '2028-03-01T18:40:00Z');
  await publish(other, '2028-12-30T18:29:59Z', euros('a', 5));
  await publish(other, '2028-12-31T18:29:59Z', euros('a', 6));
  await round(other, '2029-01-01T18:40:00Z');
  assert.deepEqual(await daysOf(store), ['2028-02-28 1', '2028-02-29 1', '2028-03-01 0']);
  assert.deepEqual(await daysOf(other), ['2028-12-30 5', '2028-12-31 6', '2029-01-01 6']);
});

test('a store that moves east has a snapshot of each day of its calendar', async () => {
  const store = await addStore('Pacific/Honolulu');
  await publish(store, '2027-05-02T09:00:00Z', euros('a', 1));
  await revenue.moveStore(store, 'Pacific/Kiritimati');
  assert.equal(await round(store, '2027-05-02T09:01:00Z'), 1, 'the first of May has ended in the new zone');
  await publish(store, '2027-05-02T09:30:00Z', euros('a', 2));
  await publish(store, '2027-05-02T11:00:00Z', euros('a', 3));
  await round(store, '2027-05-02T10:10:00Z');
  await isDueAt(store, '2027-05-03T10:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-05-01 1', '2027-05-02 2', '2027-05-03 3']);
});

test('a store that moves west waits until its day has ended there, and a reported day stays as it was', async () => {
  const store = await addStore('Pacific/Kiritimati');
  await publish(store, '2027-06-01T09:00:00Z', euros('a', 1));
  assert.equal(await round(store, '2027-06-01T10:10:00Z'), 1);
  await revenue.moveStore(store, 'Pacific/Honolulu');
  await publish(store, '2027-06-01T11:00:00Z', euros('a', 2), euros('b', 5));
  assert.equal(await round(store, '2027-06-02T10:10:00Z'), 0, 'the second of June has ended in the old zone');
  await publish(store, '2027-06-03T09:59:00Z', euros('a', 3));
  await isDueAt(store, '2027-06-03T10:10:00Z');
  assert.deepEqual(await daysOf(store), ['2027-06-01 1', '2027-06-02 8']);
});

/** Morocco ends its summer time in 2026, by tz data that Node.js has and this PostgreSQL lacks. */
const NEWER: ReadonlySet<string> = new Set(['Africa/Casablanca', 'Africa/El_Aaiun']);

/** Returns the days around each change of the clock in 2026 to 2028, and around the first of these years. */
function daysOfChanges(timeZone: string): string[] {
  const days = new Set<string>();
  let at: Temporal.ZonedDateTime | null = Temporal.ZonedDateTime.from({ timeZone, year: 2026, month: 1, day: 1 });
  while (at !== null && at.year <= 2028) {
    for (const by of [-1, 0, 1]) days.add(at.toPlainDate().add({ days: by }).toString());
    at = at.getTimeZoneTransition('next');
  }
  return [...days];
}

test('the days of every time zone that a store can have end when they end for PostgreSQL', async (t) => {
  const { sql } = revenue;
  const names = (await sql<{ name: string }[]>`select name from pg_timezone_names order by name`).map(
    ({ name }) => name,
  );
  const wrong: string[] = [];
  let count = 0;
  await transaction(sql, async (tx) => {
    for (const name of new Set([...names, ...Intl.supportedValuesOf('timeZone')])) {
      const timeZone = readTimeZone(name);
      if (timeZone === undefined) continue;
      const days = daysOfChanges(timeZone);
      const ends = days.map((day) => endOfDay(day, timeZone));
      count += days.length;
      for (const [n, end] of ends.entries())
        if (dayAt(end, timeZone) !== nextDay(days[n] ?? '')) wrong.push(`${timeZone} ${days[n]}: no end`);
      if (NEWER.has(timeZone)) continue;
      // As a setting, CET is a name with summer time, and no abbreviation.
      await tx`select set_config('TimeZone', ${timeZone}, true)`;
      const other = await tx<{ day: string }[]>`
        select d.day::text as day from unnest(${days}::date[], ${ends}::timestamptz[]) as d (day, ended)
        where d.ended::date <> d.day + 1 or (d.ended - interval '1 second')::date <> d.day`;
      wrong.push(...other.map(({ day }) => `${timeZone} ${day}: PostgreSQL`));
    }
  });
  assert.deepEqual(wrong, []);
  t.diagnostic(`${names.length} names, ${count} days`);
});
