/** The mappings of docs/platforms/ on payloads in the documented shape of each platform: lifecycle steps, revenue, dates, deletions. */
import { ConfigError } from '#core/config-error.ts';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseExact } from '#core/exact-number.ts';
import { termOf } from '../mrr.ts';
import type { JsonObject } from '../resource-document.ts';
import { stepsBetween } from '../subscription-steps.ts';
import { readMappings } from './mapping-file.ts';

const FOLDER = join(import.meta.dirname, '../../../docs/platforms');
const ZONE = 'Europe/Berlin';

function mappingOf(platform: string, type: string) {
  const path = join(FOLDER, `${platform}.json`);
  const mapping = readMappings({ path, text: readFileSync(path, 'utf8') }).get(type);
  assert.ok(mapping !== undefined);
  /** Maps what a request would have, so that numbers keep their spelling. */
  return (resource: unknown) => mapping(parseExact(JSON.stringify(resource)) as JsonObject);
}

type Change = { changes: object; steps: readonly string[]; monthly?: string; warns?: string };

/** Publishes a first version and its changes, and compares the steps, the revenue and the warnings of each. */
function assertLife(platform: string, first: object, changes: readonly Change[]): void {
  const map = mappingOf(platform, 'subscription');
  const whole = {};
  let before: JsonObject | undefined;
  for (const { changes: changed, steps, monthly, warns } of [
    { changes: first, steps: ['activated'] },
    ...changes,
  ] as const) {
    Object.assign(whole, changed);
    const { resource, warnings } = map(whole);
    const found = stepsBetween(before, resource, { action: 'modified', timeZone: ZONE });
    assert.deepEqual(found.steps, steps, JSON.stringify(changed));
    const term = termOf(resource, ZONE);
    if (monthly !== undefined) assert.equal(`${term.isActive ? term.monthly : 0} ${term.currency}`, monthly);
    assert.deepEqual(
      warnings.map(({ field }) => field),
      warns === undefined ? [] : [warns],
    );
    before = resource;
  }
}

const unix = (date: string): number => Date.parse(date) / 1_000;

test('Stripe Billing: several items in cents, a trial, a failed and a late payment, a cancellation at the end of the period', () => {
  const price = (cents: number, interval = 'month', count = 1) => ({
    unit_amount: cents,
    recurring: { interval, interval_count: count },
  });
  const items = (...all: object[]) => ({ data: all });
  const first = {
    id: 'sub_1',
    object: 'subscription',
    currency: 'eur',
    status: 'trialing',
    start_date: unix('2026-03-01T00:00:00Z'),
    current_period_start: unix('2026-03-01T00:00:00Z'),
    current_period_end: unix('2026-03-15T00:00:00Z'),
    ended_at: null,
    cancel_at: null,
    items: items({ price: price(1_999), quantity: 2 }, { price: price(50), quantity: 1 }),
  };
  const period = (from: string, to: string) => ({ current_period_start: unix(from), current_period_end: unix(to) });
  assertLife('stripe', first, [
    {
      changes: { status: 'active', ...period('2026-03-15', '2026-04-15') },
      steps: ['billing_success'],
      monthly: '40.48 EUR',
    },
    {
      changes: { status: 'past_due', ...period('2026-04-15', '2026-05-15') },
      steps: ['billing_failure'],
      monthly: '40.48 EUR',
    },
    { changes: { status: 'active' }, steps: ['recovered'], monthly: '40.48 EUR' },
    {
      changes: { items: items({ price: price(12_000, 'year'), quantity: 1 }) },
      steps: ['modified'],
      monthly: '10 EUR',
    },
    { changes: { cancel_at: unix('2026-05-15') }, steps: ['cancelled'], monthly: '10 EUR' },
    { changes: { status: 'canceled', ended_at: unix('2026-05-15') }, steps: ['modified'], monthly: '0 EUR' },
    { changes: { status: 'dormant' }, steps: [], warns: 'resource.status' },
  ]);
  const yen = mappingOf(
    'stripe',
    'subscription',
  )({ ...first, currency: 'jpy', items: items({ price: price(980), quantity: 1 }) });
  assert.equal(termOf(yen.resource, ZONE).monthly, '980');
});

test('WooCommerce: dates without an offset are in UTC, amounts are texts, on hold is past due', () => {
  const first = {
    id: 71,
    status: 'active',
    currency: 'USD',
    total: '24.50',
    billing_period: 'week',
    billing_interval: '2',
    start_date_gmt: '2026-03-01T09:00:00',
    next_payment_date_gmt: '2026-03-15T09:00:00',
    end_date_gmt: '',
    date_modified_gmt: '2026-03-01T09:00:00',
  };
  const modified = (date: string) => ({ date_modified_gmt: `2026-${date}T09:00:05` });
  assertLife('woocommerce', first, [
    {
      changes: { next_payment_date_gmt: '2026-03-29T09:00:00', ...modified('03-15') },
      steps: ['billing_success'],
      // 24.50 × 365 / 84 / 2 weeks × … : two-weekly, as the page of recurring revenue has it.
      monthly: `${((24.5 * 365) / (84 * 2)).toFixed(6)} USD`,
    },
    { changes: { status: 'on-hold', ...modified('03-29') }, steps: ['billing_failure'] },
    { changes: { ...modified('03-29'), customer_note: 'Call me' }, steps: ['modified'] },
    { changes: { status: 'active', ...modified('03-30') }, steps: ['recovered'] },
    {
      changes: { status: 'pending-cancel', end_date_gmt: '2026-04-12T09:00:00', ...modified('04-01') },
      steps: ['cancelled'],
    },
    { changes: { status: 'expired', ...modified('04-12') }, steps: ['modified'], monthly: '0 USD' },
  ]);
  // The hour that does not exist in Berlin, and the one that exists twice, are exact because they are in UTC.
  const map = mappingOf('woocommerce', 'subscription');
  for (const written of ['2026-03-29T01:30:00', '2026-10-25T00:30:00'])
    assert.equal(map({ ...first, date_modified_gmt: written }).resource['date_modified'], `${written}.000Z`);
  assert.equal(map({ ...first, status: 'trash' }).isDeleted, true);
  assert.equal(mappingOf('woocommerce', 'transaction')({ id: 1, status: 'completed' }).isDeleted, false);
});

test('Shopify: a contract has no amount in its webhook, so it has no revenue', () => {
  const first = {
    id: 593_634,
    status: 'active',
    currency_code: 'USD',
    customer_id: 1,
    billing_policy: { interval: 'month', interval_count: 3 },
  };
  assertLife('shopify', first, [
    { changes: { revision_id: 2 }, steps: ['modified'], monthly: '0 USD' },
    { changes: { status: 'cancelled' }, steps: ['cancelled'], monthly: '0 USD' },
    { changes: { status: 'melted' }, steps: [], warns: 'resource.status' },
  ]);
});

test('Saleor and Medusa: the date and the currency of an order, and the mark of a deletion', () => {
  const saleor = mappingOf(
    'saleor',
    'transaction',
  )({
    id: 'T3JkZXI6MQ==',
    updatedAt: '2026-03-01T09:00:00.123456+00:00',
    total: { gross: { amount: 98.4, currency: 'USD' } },
  });
  assert.deepEqual(
    [saleor.resource['date_modified'], saleor.resource['currency_code']],
    ['2026-03-01T09:00:00.123456+00:00', 'USD'],
  );
  const order = {
    id: 'order_1',
    updated_at: '2026-03-01T09:00:00Z',
    currency_code: 'eur',
    total: 30,
    deleted_at: null,
  };
  const map = mappingOf('medusa', 'transaction');
  assert.deepEqual(
    [map(order).isDeleted, map({ ...order, deleted_at: '2026-04-01T00:00:00Z' }).isDeleted],
    [false, true],
  );
  assert.equal(map(order).resource['date_modified'], order.updated_at);
});

for (const [what, resources, message] of [
  ['an unknown type', { invoice: {} }, /\/resources\/invoice/],
  ['a type that Halcyon makes', { changelog: {} }, /\/resources\/changelog/],
  ['a member that has no meaning', { customer: { amount: '/total' } }, /\/resources\/customer\/amount/],
  ['a pointer without a slash', { customer: { id: 'key' } }, /\/resources\/customer\/id/],
  ['a zone that does not exist', { customer: { date_modified: { at: '/at', zone: 'Mars' } } }, /date_modified\/zone/],
  ['nothing', {}, /\/resources/],
] as const) {
  test(`a file with ${what} is refused, with the place`, () => {
    const text = JSON.stringify({ resources });
    assert.throws(
      () => readMappings({ path: 'map.json', text }),
      (error) =>
        error instanceof ConfigError && error.message.startsWith('MAPPING_FILE') && message.test(error.message),
    );
  });
}
