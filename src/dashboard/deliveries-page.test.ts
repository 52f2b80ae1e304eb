import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, render } from '#hypermedia/markup.ts';
import { nextAttempt, stateOf, recoveryFields } from './deliveries-page.ts';

const now = new Date('2026-11-24T10:00:00Z');
const delivery = { status: 'pending', attempts: 0, dateNext: null, resentAs: null } as const;

test('a pending delivery is queued until its first attempt has failed', () => {
  assert.deepEqual(
    [
      stateOf(delivery),
      stateOf({ ...delivery, attempts: 1 }),
      stateOf({ ...delivery, status: 'failed' }),
      stateOf({ ...delivery, status: 'failed', resentAs: 7 }),
      stateOf({ ...delivery, status: 'successful', attempts: 3 }),
    ].map(([words]) => words),
    ['Queued', 'Retrying', 'Failed', 'Sent again', 'Delivered'],
  );
});

test('a pending delivery has the number and the time of its next attempt', () => {
  const later = { ...delivery, attempts: 2, dateNext: '2026-11-24T11:04:00+0100' };
  const words = (next: typeof later | typeof delivery) => render(nextAttempt(next, now) ?? html``);
  assert.equal(words(later), 'Attempt 3: <time datetime="2026-11-24T11:04:00+0100">24 Nov 11:04 UTC+1</time>');
  assert.equal(words({ ...later, dateNext: '2026-11-24T10:00:00+0000' }), 'Attempt 3 is next');
  assert.equal(words(delivery), 'Attempt 1 is next');
  assert.equal(nextAttempt({ ...later, status: 'failed' }, now), undefined);
});

const context = { now: new Date('2026-11-24T10:00:00Z'), retentionDays: 30 };
const OLDEST = '2026-10-25T00:00:00+0000';
const of = (query: string) => recoveryFields([...new URLSearchParams(query)], context);

test('a recovery has the filters of the list', () => {
  assert.deepEqual(of('status=failed&webhook_id=7'), { only_failed: '1', since: OLDEST });
  assert.deepEqual(of('event=transaction/created&resource_id=T*&response_code=500&response_body=*stock*'), {
    only_failed: '1',
    since: OLDEST,
    event: 'transaction/created',
    resource_id: 'T*',
    response_code: '500',
    response_body: '*stock*',
  });
});

test('a range of dates is the same in both, after its first second', () => {
  const range = 'date_created:greaterthan=2026-11-20T10:00:00%2B0100&date_created:lessthan=2026-11-21';
  assert.deepEqual(of(range), { only_failed: '1', since: '2026-11-20T09:00:01+0000', until: '2026-11-21' });
});

for (const query of [
  'attempts:greaterthan=3',
  'event:not=transaction/created',
  'event=transaction/*',
  'response_code=',
  'date_created=2026-11-20',
  'date_created:greaterthan=yesterday',
  'constructor=1',
])
  test(`a list of ${query} has no recovery of its own`, () => assert.equal(of(query), undefined));
