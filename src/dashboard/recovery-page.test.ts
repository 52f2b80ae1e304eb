import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render } from '#hypermedia/markup.ts';
import type { RecoveryView } from '#webhooks/recovery/recovery.ts';
import { outcomeOf } from './recovery-page.ts';

const running: RecoveryView = {
  state: 'running',
  event: null,
  resourceId: null,
  responseCode: null,
  responseBody: null,
  since: '2026-07-01T08:00:00+0000',
  until: null,
  created: '2026-07-01T10:00:00+0000',
  ended: null,
  isOnlyFailed: false,
  isLoaded: false,
  total: 1_200,
  seen: 400,
  recovered: 1,
};
const ended = '2026-07-01T12:01:00+0200';
const AT = '1 July 2026 at 12:01 UTC+2';

const cases: readonly (readonly [changes: Partial<RecoveryView>, words: string])[] = [
  [{}, '400 of 1,200 events checked, and 1 event sent so far.'],
  [{ isLoaded: true, recovered: 7 }, '400 of 1,200 resources checked, and 7 resources sent so far.'],
  [{ state: 'finished', ended, recovered: 0 }, `Finished ${AT}: none of 1,200 events had to be sent.`],
  [{ state: 'finished', ended }, `Finished ${AT}: 1 event was sent.`],
  [{ state: 'cancelled', ended, recovered: 2 }, `Cancelled ${AT}: 2 events were sent until then.`],
  [
    { state: 'stopped', ended },
    `Stopped ${AT}, because the webhook was disabled or has no URL: 1 event was sent until then.`,
  ],
];

for (const [changes, words] of cases)
  test(`a recovery says: ${words}`, () => {
    const text = render(outcomeOf({ ...running, ...changes }));
    assert.equal(text.replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' '), words);
  });
