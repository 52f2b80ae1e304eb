import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { createNoticeLimits, type Notice, type NoticeLimits } from './notices.ts';
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
  rotationEndsAt: null,
  consecutiveFailures: null,
  firstFailureAt: null,
  isWarned: null,
  outcome: null,
  responseCode: null,
  app: null,
};

type Mailed = { webhookId: number; about: Notice['about']; clientId?: string };

/** Which of `count` notices a minute apart are mailed, each about the webhook that `of` names. */
function mailed(count: number, of: (n: number) => Mailed, everyMs = 60_000, to: keyof NoticeLimits = 'ofStore') {
  const limits = createNoticeLimits();
  return Array.from({ length: count }, (_, n) => n).filter((n) => {
    const { webhookId, about, clientId = 'app' } = of(n);
    const notice = { shard: shardOf(webhookId), webhookId, epoch: n, about };
    const app = { clientId, name: 'App', developer: 'dev@example.com' };
    return limits[to](notice, { ...noticed, id: webhookId, storeId: to === 'ofStore' ? 1 : n, app }, n * everyMs);
  });
}

test('a developer gets one mail of a kind per hour and app, in however many stores its webhooks fail', () => {
  const everywhere = mailed(150, (n) => ({ webhookId: n * 256 + 1, about: 'failures' }), 60_000, 'ofDeveloper');
  assert.deepEqual(everywhere, [0, 60, 120]);
  const kinds = (n: number): Mailed => ({
    webhookId: 257,
    about: n % 2 === 0 ? 'gone' : 'warning',
    clientId: `${n >> 1}`,
  });
  assert.deepEqual(mailed(4, kinds, 1, 'ofDeveloper'), [0, 1, 2, 3]);
});

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

test('a developer gets a mail for each new key, up to 100 per hour and app', () => {
  const replaced = mailed(300, (n) => ({ webhookId: n * 256 + 1, about: 'key' }), 1_000, 'ofKeys');
  assert.deepEqual([replaced.length, replaced[99]], [108, 99]);
});
