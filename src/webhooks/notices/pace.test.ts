import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import type { Notice } from './notices.ts';
import { createNoticeLimit } from './pace.ts';
import type { NotifiedWebhook } from './notices-sql.ts';

const noticed: NotifiedWebhook = {
  id: 257,
  name: 'Orders',
  url: null,
  isActive: false,
  epoch: 1,
  retryProfile: 'hour',
  storeId: 1,
  storeDomain: 'shop.example.com',
  email: 'ada@example.com',
  timeZone: 'UTC',
  consecutiveFailures: null,
  firstFailureAt: null,
  isWarned: null,
  outcome: null,
  responseCode: null,
};

/** Which of `count` notices a minute apart are mailed, each about the webhook that `of` names. */
function mailed(count: number, of: (n: number) => { webhookId: number; about: Notice['about'] }, everyMs = 60_000) {
  const mayGo = createNoticeLimit();
  return Array.from({ length: count }, (_, n) => n).filter((n) => {
    const { webhookId, about } = of(n);
    const notice = { shard: shardOf(webhookId), webhookId, epoch: n, about };
    return mayGo(notice, { ...noticed, id: webhookId }, n * everyMs);
  });
}

test('a webhook that is disabled and enabled repeatedly gets one notice of a kind per hour', () => {
  assert.deepEqual(
    mailed(150, () => ({ webhookId: 257, about: 'gone' })),
    [0, 60, 120],
  );
  assert.deepEqual(
    mailed(6, (n) => ({ webhookId: n < 3 ? 257 : 513, about: n % 3 === 1 ? 'gone' : 'failures' })),
    [0, 1, 3, 4],
  );
});

test('a store gets at most as many mails per hour as it may have webhooks, however often they are recreated', () => {
  const recreated = mailed(300, (n) => ({ webhookId: n * 256 + 1, about: 'gone' }), 1_000);
  assert.deepEqual([recreated.length, recreated[99]], [108, 99]);
});
