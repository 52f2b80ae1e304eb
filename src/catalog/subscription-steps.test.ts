/** One example per rule, and a property test with arbitrary JSON. The table of docs/subscriptions.md has the same rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Value } from '#hypermedia/document.ts';
import { anyName, valueWith } from '../../test/setup/any-document.ts';
import { type Subscription, stepsBetween, STEPS } from './subscription-steps.ts';

const running: Subscription = {
  id: 8120,
  frequency: '1m',
  is_active: true,
  start_date: '2026-08-01T00:00:00+0200',
  next_transaction_date: '2026-11-01T00:00:00+0100',
  end_date: null,
  past_due_amount: 0,
};
const NEXT = { next_transaction_date: '2026-12-01T00:00:00+0100' };
const DATED = { date_modified: '2026-11-01T03:00:21+0100' };
const ENDING = { end_date: '2026-12-31' };
const OWING = { past_due_amount: 19, error_message: 'declined' };
const OFF = { is_active: false };

const timeZone = 'Europe/Berlin';

type Part = { readonly [name: string]: Value };
/** Both parts are merged over an active subscription; null: there was none before. */
const stepsOf = (before: Part | null, after: Part, action = 'modified') =>
  stepsBetween(before === null ? undefined : { ...running, ...before }, { ...running, ...after }, { action, timeZone })
    .steps;

const embedding = (relation: string, value: Value) => ({ _embedded: { [`svc:${relation}`]: value } });

const cases: [what: string, before: Part | null, after: Part, steps: string[], action?: string][] = [
  ['a first version that is active', null, {}, ['activated'], 'created'],
  ['a first version that is inactive', null, OFF, [], 'created'],
  ['a first version that starts later', null, { start_date: '2027-01-01' }, ['activated'], 'created'],
  ['a first version with an end', null, ENDING, ['activated', 'cancelled'], 'created'],
  ['a first version with an overdue amount', null, OWING, ['activated'], 'created'],
  ['a first version that is cancelled', null, { ...OFF, ...ENDING }, ['cancelled'], 'cancelled'],
  ['switched on', OFF, {}, ['activated']],
  ['activated, with the flag as a text', { is_active: '0' }, { is_active: '1' }, ['activated']],
  ['activated again, with a new date', OFF, NEXT, ['activated']],
  ['an end date removed', ENDING, {}, ['activated']],
  ['an end date in the future', {}, ENDING, ['cancelled']],
  ['deactivated', {}, OFF, ['cancelled']],
  ['an end date of today', {}, { ...OFF, ...ENDING }, ['cancelled']],
  ['deactivated on its end date', ENDING, { ...ENDING, ...OFF }, ['modified']],
  ['another end', ENDING, { end_date: '2027-01-31' }, ['modified']],
  ['marked as cancelled', {}, { note: 'by phone' }, ['cancelled', 'modified'], 'cancelled'],
  ['marked as cancelled again', ENDING, { ...ENDING, note: 'by phone' }, ['modified'], 'cancelled'],
  ['marked as cancelled, unchanged', {}, DATED, [], 'cancelled'],
  ['billed', {}, { ...NEXT, ...DATED }, ['billing_success']],
  ['billed, without its own date', {}, NEXT, ['billing_success']],
  ['billed for the last time', ENDING, { ...ENDING, ...NEXT }, ['billing_success']],
  ['postponed before it was due', {}, { ...NEXT, date_modified: '2026-10-05T00:00:00Z' }, ['modified']],
  ['brought forward', NEXT, {}, ['modified']],
  ['billed while it is inactive', OFF, { ...OFF, ...NEXT }, ['modified']],
  ['not billed', {}, { ...OWING, ...NEXT }, ['billing_failure']],
  [
    'billing failed, with the amount as a text',
    { past_due_amount: '0.00' },
    { past_due_amount: '19.00' },
    ['billing_failure'],
  ],
  ['billing failed, without an amount', {}, { first_failed_transaction_date: '2026-11-01' }, ['billing_failure']],
  [
    'the amount of a failure that was reported',
    { first_failed_transaction_date: '2026-11-01' },
    { past_due_amount: 19, first_failed_transaction_date: '2026-11-01' },
    ['modified'],
  ],
  ['billing of the next period failed too', OWING, { ...OWING, ...NEXT, past_due_amount: 38 }, ['billing_failure']],
  ['tried again, with another error', OWING, { ...OWING, error_message: 'expired' }, ['dunning']],
  ['tried again, and more is overdue', OWING, { ...OWING, past_due_amount: '24' }, ['dunning']],
  ['paid late', OWING, {}, ['recovered']],
  ['paid late as the text 0.00', OWING, { past_due_amount: '0.00' }, ['recovered']],
  ['paid late and billed again', OWING, NEXT, ['recovered', 'billing_success']],
  ['cancelled after failed payments', OWING, { ...OWING, ...OFF, error_message: 'gone' }, ['dunning', 'cancelled']],
  ['another frequency', {}, { frequency: '1y' }, ['modified']],
  ['billed and changed', {}, { ...NEXT, frequency: '1y' }, ['billing_success', 'modified']],
  [
    'another frequency and another amount in embedded resources',
    embedding('transaction_template', { total_order: 19 }),
    embedding('transaction_template', { total_order: 24 }),
    ['modified'],
  ],
  ['only a new date_modified', {}, DATED, []],
  ['the same values in another notation', { is_active: 1, note: null }, { past_due_amount: '0.00', end_date: '' }, []],
  ['a changed customer', embedding('customer', { last_name: 'A' }), embedding('customer', { last_name: 'B' }), []],
  ['a newly embedded resource', {}, embedding('attributes', [{ name: 'a' }]), []],
];

for (const [what, before, after, steps, action] of cases)
  test(`${what}: ${steps.join(', ') || 'no step'}`, () => assert.deepEqual(stepsOf(before, after, action), steps));

test('a changed next date alone is no billing if the last transaction is the same', () => {
  const last = (id: number) => embedding('last_transaction', { id });
  assert.deepEqual(stepsOf(last(1), { ...NEXT, ...last(1) }), ['modified']);
  assert.deepEqual(stepsOf(last(1), { ...NEXT, ...last(2) }), ['billing_success']);
});

/** Arbitrary JSON that often has the known names and values close to the known ones. */
const anyWord = fc.constantFrom<Value[]>(true, 1, '1', false, 0, '0', '', null, '19.00', 38, -1, 1e300, '0000-00-00');
const anyDay = fc.constantFrom(
  '2026-02-30',
  '2026-11-01',
  '2026-12-01T00:00:00+0100',
  '2027-01-01T00:00:00Z',
  '2026-1',
);
const anyMember = fc.oneof(anyWord, anyDay, valueWith(anyName));
const anySubscription = fc
  .tuple(
    fc.dictionary(anyName, valueWith(anyName), { maxKeys: 4 }),
    fc.record(
      {
        is_active: anyMember,
        start_date: anyMember,
        end_date: anyMember,
        next_transaction_date: anyMember,
        date_modified: anyMember,
        first_failed_transaction_date: anyMember,
        past_due_amount: anyMember,
        error_message: anyMember,
        _embedded: fc.oneof(
          valueWith(anyName),
          fc.dictionary(fc.constantFrom('last_transaction', 'x:attributes'), anyMember),
        ),
      },
      { requiredKeys: [] },
    ),
  )
  .map((parts): Subscription => Object.assign({}, ...parts) as Subscription);
const anyAction = fc.constantFrom('created', 'modified', 'cancelled');

test('arbitrary JSON gives only known steps, each at most once, in one order, and the same each time', () => {
  const before = fc.option(anySubscription, { nil: undefined });
  fc.assert(
    fc.property(before, anySubscription, anyAction, (was, is, action) => {
      const { steps } = stepsBetween(was, is, { action, timeZone });
      assert.deepEqual(
        steps,
        STEPS.filter((step) => steps.includes(step)),
      );
      assert.deepEqual(stepsBetween(was, is, { action, timeZone }).steps, steps);
    }),
    { numRuns: 300 },
  );
});

test('two equal versions are no step', () => {
  fc.assert(
    fc.property(anySubscription, anyAction, (one, action) => {
      assert.deepEqual(stepsBetween(one, structuredClone(one), { action, timeZone }), { steps: [], differing: [] });
    }),
    { numRuns: 300 },
  );
});

test('two different versions are a step', () => {
  fc.assert(
    fc.property(anySubscription, anySubscription, anyAction, (was, is, action) => {
      const { steps, differing } = stepsBetween(was, is, { action, timeZone });
      assert.equal(steps.length > 0, differing.length > 0);
    }),
    { numRuns: 300 },
  );
});

test('a date without an offset is in the time zone of the store', () => {
  const written = { ...running, start_date: '2026-08-01', next_transaction_date: '2026-11-01 00:00' };
  assert.deepEqual(stepsBetween(running, written, { action: 'modified', timeZone }), { steps: [], differing: [] });
  const { differing } = stepsBetween(running, written, { action: 'modified', timeZone: 'UTC' });
  assert.deepEqual(differing, ['start_date', 'next_transaction_date']);
});
