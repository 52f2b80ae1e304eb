/** Changes of webhooks: the process that makes one, and its siblings, send nothing with the old settings after the response. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { ChangedWebhooks, openInternalEvents } from './publishing.ts';
import type { DatabaseSiblings } from './supervisor.ts';

const { sql } = await testDatabase();
const WEBHOOK = { shard: 7, webhookId: 256 * 5 + 7 };

/** Returns a process with one sibling, and what their parts were notified of. */
function start() {
  const notified: string[] = [];
  let receive: ((webhook: typeof WEBHOOK) => void) | undefined;
  const siblings: DatabaseSiblings = {
    receive: (topic, handler) => {
      if (topic === 'webhookChanged') receive = handler as typeof receive;
    },
    broadcast: (topic) => void notified.push(`sibling: ${topic}`),
    send: () => false,
  };
  const changed = new ChangedWebhooks(siblings);
  for (const part of ['worker', 'streams']) changed.add(({ webhookId }) => void notified.push(`${part}: ${webhookId}`));
  const { announceChanges } = openInternalEvents(
    { baseUrl: 'https://api.example.com' },
    undefined,
    undefined,
    changed.onChanged,
  );
  const change = (end: () => void = () => {}) =>
    transaction(sql, async (tx) => {
      await announceChanges(tx, WEBHOOK.shard, [WEBHOOK.webhookId]);
      assert.deepEqual(notified, [], 'not before the commit');
      end();
    });
  return { notified, change, receive: () => receive?.(WEBHOOK) };
}

const own = [`worker: ${WEBHOOK.webhookId}`, `streams: ${WEBHOOK.webhookId}`];

test('parts of the process and siblings are notified with the commit, before its caller continues', async () => {
  const { notified, change } = start();
  await change();
  assert.deepEqual(notified, [...own, 'sibling: webhookChanged']);
});

test('the change of a sibling is not passed on', () => {
  const { notified, receive } = start();
  receive();
  assert.deepEqual(notified, own);
});

test('a change that is rolled back notifies nothing', async () => {
  const { notified, change } = start();
  const failing = change(() => {
    throw new Error('rolled back');
  });
  await assert.rejects(failing, /rolled back/);
  assert.deepEqual(notified, []);
});
