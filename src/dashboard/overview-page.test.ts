import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HealthView } from '#webhooks/health/health-document.ts';
import { naming } from '../../test/setup/documents.ts';
import { html, render } from '#hypermedia/markup.ts';
import { nextWords, remedyOf, responseTime, stateCell, stateWords } from './health-words.ts';
import { stateSentence } from './overview-page.ts';

const ok: HealthView = {
  name: 'Orders',
  address: '/webhooks/1',
  state: 'ok',
  isActive: true,
  inactiveReason: null,
  reason: null,
  failingSince: null,
  pausedUntil: null,
  attempts: 5,
  delivered: 5,
  successRate: 100,
  medianMs: 10,
  slowMs: 50,
  trend: { name: 'success_trend', kind: 'trend', value: [] },
  pending: 0,
  retrying: 0,
  notArrived: 0,
  notArrivedSince: null,
  lastAttempt: 'delivered',
  oldestPending: null,
  dateNext: null,
  failures: [],
};
const idle: HealthView = { ...ok, lastAttempt: null };
const enabledAgain: HealthView = { ...ok, lastAttempt: 'failed' };
const retrying: HealthView = { ...ok, retrying: 1 };
const missed: HealthView = { ...ok, notArrived: 5, notArrivedSince: '2026-11-20T16:05:03+0000' };
const failing: HealthView = { ...ok, state: 'failing' };
const paused: HealthView = { ...ok, state: 'paused' };
const incomplete: HealthView = { ...ok, state: 'inactive' };
const disabled: HealthView = { ...ok, state: 'inactive', isActive: false };
const gone: HealthView = { ...disabled, inactiveReason: 'gone' };
const ended: HealthView = { ...disabled, inactiveReason: 'access_ended' };

const sentences: readonly (readonly [sentence: string, healths: readonly HealthView[]])[] = [
  ['All 3 webhooks deliver.', [ok, ok, idle]],
  ['Your webhook delivers.', [ok]],
  ['Your webhook is ready.', [idle]],
  ['All 2 webhooks are ready.', [idle, idle]],
  ['2 webhooks deliver, 1 is disabled.', [ok, disabled, ok]],
  ['1 webhook delivers, 2 are disabled.', [ok, disabled, disabled]],
  ['Your webhook is disabled.', [disabled]],
  ['All 2 webhooks are disabled.', [disabled, disabled]],
  ['Your webhook needs attention.', [failing]],
  ['1 of 3 webhooks needs attention.', [ok, failing, disabled]],
  ['1 of 4 webhooks needs attention.', [missed, ok, ok, { ...disabled, notArrived: 5 }]],
  ['All 3 webhooks are disabled.', [disabled, disabled, { ...disabled, notArrived: 5 }]],
  ['5 of 6 webhooks need attention.', [ok, failing, paused, incomplete, gone, ended]],
];
for (const [sentence, healths] of sentences)
  test(`the state is: ${sentence}`, () => assert.equal(stateSentence(healths), sentence));

test('a row has the state, and what did not arrive', () => {
  const text = (health: HealthView) =>
    render(stateCell(health, naming))
      .replaceAll(/<[^>]+>/g, '')
      .trim();
  assert.equal(text(ok), 'Delivering');
  assert.match(text(missed), /^Delivering\s+5 events did not arrive$/);
});

test('a state has words of its own', () => {
  assert.deepEqual(
    [ok, idle, enabledAgain, retrying, failing, paused, incomplete, disabled, gone].map(
      (health) => stateWords(health)[0],
    ),
    [
      'Delivering',
      'Not used yet',
      'Not used yet',
      'Retrying',
      'Failing',
      'Paused',
      'Incomplete',
      'Disabled',
      'Disabled by Halcyon',
    ],
  );
});

test('a webhook that needs attention leads to the remedy', () => {
  assert.deepEqual(
    [
      { ...failing, pending: 2, retrying: 1 },
      { ...failing, pending: 2, retrying: 1, notArrived: 5 },
      failing,
      missed,
      paused,
      incomplete,
      gone,
      ended,
    ].map((health) => remedyOf(health, naming)[1]),
    [
      '/webhooks/1/statuses?status=pending&attempts%3Agreaterthan=0',
      '/webhooks/1/statuses?status=failed&not_arrived=1',
      '/webhooks/1/logs?outcome%3Anot=delivered',
      '/webhooks/1/statuses?status=failed&not_arrived=1',
      '/webhooks/1/statuses?status=pending',
      '/webhooks/1#change',
      '/webhooks/1',
      '/webhooks/1',
    ],
  );
});

test('a response time is the range that was counted, and the next attempt has its time', () => {
  assert.deepEqual([null, 10, 50, 1_000, 30_000].map(responseTime), [
    '–',
    '0–10 ms',
    '25–50 ms',
    '500 ms–1 s',
    'more than 10 s',
  ]);
  const now = new Date('2026-11-24T10:00:00Z');
  assert.equal(nextWords({ dateNext: null }, now), undefined);
  assert.match(render(html`${nextWords({ dateNext: '2026-11-24T10:04:00+0000' }, now)}`), />24 Nov 10:04 UTC</);
  assert.equal(nextWords({ dateNext: '2026-11-24T11:00:00+0100' }, now), 'now');
});
