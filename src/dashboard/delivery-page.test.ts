import assert from 'node:assert/strict';
import { test } from 'node:test';
import { number, text, type Document } from '#hypermedia/document.ts';
import { render } from '#hypermedia/markup.ts';
import { detailsOf, outcomeOf, type DeliveryState } from './delivery-page.ts';

const now = new Date('2026-07-01T10:00:00Z');
const state: DeliveryState = {
  status: 'pending',
  attempts: 0,
  attemptsMax: null,
  reason: null,
  waitsFor: null,
  dateNext: null,
  dateEnded: null,
};
const said = (changes: Partial<DeliveryState>): string =>
  render(outcomeOf({ ...state, ...changes }, now)).replaceAll(/<[^>]*>/g, '');

test('a pending delivery says which attempt is next, and when', () => {
  assert.equal(said({}), 'Attempt 1 is next.');
  assert.equal(said({ attempts: 2, dateNext: '2026-07-01T10:00:00+0000' }), 'Attempt 3 is next.');
  assert.equal(
    said({ attempts: 2, dateNext: '2026-07-01T12:04:00+0200' }),
    'Attempt 3 in 4 min: 1 July 2026 at 12:04 UTC+2.',
  );
});

test('it says how many attempts there are, unless there were more before the retry profile was changed', () => {
  assert.equal(said({ attempts: 2, attemptsMax: 12 }), 'Attempt 3 of 12 is next.');
  assert.equal(said({ attempts: 11, attemptsMax: 12 }), 'Attempt 12 of 12 is next.');
  assert.equal(said({ attempts: 11, attemptsMax: 10 }), 'Attempt 12 is next.');
});

test('an ended delivery says after how many attempts', () => {
  const ended = { dateEnded: '2026-07-01T10:04:00+0000' };
  const at = '1 July 2026 at 10:04 UTC';
  for (const [status, attempts, words] of [
    ['successful', 1, `Delivered ${at}, at the first attempt.`],
    ['successful', 3, `Delivered ${at}, at attempt 3.`],
    ['failed', 0, `Failed ${at}, without an attempt.`],
    ['failed', 1, `Failed ${at}, after 1 attempt. There are no more automatic attempts.`],
    ['failed', 12, `Failed ${at}, after 12 attempts. There are no more automatic attempts.`],
  ] as const)
    assert.equal(said({ ...ended, status, attempts }), words);
});

const log = (n: number): Document => ({ name: 'log', links: [], embedded: [], properties: [number('attempt', n)] });
const delivery: Document = {
  name: 'status',
  links: [],
  properties: [
    text('status', 'failed'),
    number('attempts', 2),
    number.orNull('attempts_max', null),
    ...['reason', 'waits_for', 'date_next', 'date_ended'].map((name) => text.orNull(name, null)),
  ],
  embedded: [
    { rel: 'logs', documents: [log(1), log(2)] },
    { rel: 'request', documents: [{ name: 'request', links: [], embedded: [], properties: [] }], single: true },
  ],
};

test('the newest attempt is first', () => {
  assert.deepEqual(
    detailsOf(delivery)?.attempts.map(({ properties }) => properties[0]?.value),
    [2, 1],
  );
});

test('a document without its attempts, its request or a property is not shown as a delivery', () => {
  assert.notEqual(detailsOf(delivery), undefined);
  assert.equal(detailsOf({ ...delivery, embedded: delivery.embedded.slice(0, 1) }), undefined);
  assert.equal(detailsOf({ ...delivery, embedded: delivery.embedded.slice(1) }), undefined);
  assert.equal(detailsOf({ ...delivery, properties: delivery.properties.slice(1) }), undefined);
  assert.equal(detailsOf({ ...delivery, properties: delivery.properties.slice(0, -1) }), undefined);
});
