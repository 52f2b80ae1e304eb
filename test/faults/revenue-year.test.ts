/** A year of recurring revenue, every day of it compared to the last digit with an independent calculation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startRevenue } from '../setup/revenue.ts';
import { replay } from './revenue-year/replay.ts';
import { dayAfter, madeUp, type Change } from './revenue-year/year.ts';
import { SEED, seeded } from '../setup/seed.ts';

const SUBSCRIPTIONS = 400;
const DAYS = 365;
const ZONE = 'Europe/Berlin';

const revenue = await startRevenue();

/** The platform's publishes, their values in every permitted spelling. */
function resourceOf(one: Change, random: () => number) {
  const spelled = (text: string) => (random() < 0.5 ? text : Number(text));
  const date = (day: string | null) => (day === null || random() < 0.5 ? day : `${day}T00:00:00${summer(day)}`);
  const item = {
    price: spelled(one.price),
    quantity: one.quantity,
    _embedded: { 'svc:item_options': one.options.map((price_mod) => ({ price_mod: spelled(price_mod) })) },
  };
  return {
    id: one.id,
    frequency: one.frequency,
    is_active: one.isActive ? '1' : 0,
    start_date: date(one.startDay),
    end_date: date(one.endDay),
    currency_code: one.currency.toLowerCase(),
    _embedded: { 'svc:transaction_template': { total_order: 1, _embedded: { 'svc:items': [item] } } },
  };
}

/** Berlin's offset at the beginning of a day of 2029 or around it. */
function summer(day: string): string {
  const at = new Date(`${day}T00:00:00Z`);
  return new Intl.DateTimeFormat('en', { timeZone: ZONE, timeZoneName: 'longOffset' })
    .formatToParts(at)
    .filter(({ type }) => type === 'timeZoneName')
    .map(({ value }) => value.slice(3))
    .join('');
}

/** Sums of one snapshot, in millionths. */
function sumsOf(text: string): Map<string, Record<string, bigint>> {
  const found = [...text.matchAll(/"currency_code":"(\w+)",([^}]*)/g)];
  const millionths = (value: string) => {
    const [whole = '', decimals = ''] = value.split('.');
    return BigInt(whole + decimals.padEnd(6, '0'));
  };
  return new Map(
    found.map(([, code = '', members = '']) => [
      code,
      Object.fromEntries(
        [...members.matchAll(/"(\w+)":([\d.]+)/g)].map(([, name, value = '']) => [name, millionths(value)]),
      ),
    ]),
  );
}

test('the sums of each day of a year equal those of an independent calculation, to the last digit', async (t) => {
  const random = seeded(SEED);
  const days = Array.from({ length: DAYS }, (_, n) => dayAfter('2029-01-01', n));
  const changes = madeUp(days, SUBSCRIPTIONS, random);
  // The first day has a subscription, so that the book begins with the year.
  const [first = ''] = days;
  if (changes.get(first)?.length === 0) {
    const [early] = [...changes.values()].flat();
    if (early !== undefined) changes.get(first)?.push({ ...early, id: 'first' });
  }
  const store = await revenue.addStore(ZONE);
  const startedMs = performance.now();
  let published = 0;
  for (const day of days) {
    const today = changes.get(day) ?? [];
    published += today.length;
    if (today.length > 0) {
      await revenue.publish(store, `${day}T12:00:00Z`, ...today.map((one) => resourceOf(one, random)));
    }
    // Now and then no process counts for some days.
    if (random() < 0.3) await revenue.round(store, `${dayAfter(day, 1)}T00:30:00Z`);
  }
  await revenue.round(store, `${dayAfter(first, DAYS)}T00:30:00Z`);
  t.diagnostic(`${published} versions, ${Math.round(performance.now() - startedMs)} ms`);

  const texts = await revenue.texts(store);
  const expected = replay(days, changes).map((currencies, n) => `"date":"${days[n]}","currencies":${currencies}`);
  assert.deepEqual(
    texts.map((text) => text.slice(text.indexOf('"date"'), text.indexOf(',"date_created"'))),
    expected,
  );
  let before = new Map<string, Record<string, bigint>>();
  for (const text of texts) {
    const sums = sumsOf(text);
    for (const [code, sum] of sums) {
      const { mrr = 0n, new: come = 0n, expansion = 0n, reactivation = 0n, contraction = 0n, churn = 0n } = sum;
      assert.equal(
        mrr,
        (before.get(code)?.['mrr'] ?? 0n) + come + expansion + reactivation - contraction - churn,
        text,
      );
    }
    for (const [code, sum] of before) assert.ok(sums.has(code) || sum['mrr'] === 0n, text);
    before = sums;
  }
});
