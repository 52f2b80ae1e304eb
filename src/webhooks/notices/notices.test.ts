import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import type { Mail } from '#mail/mail.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { createNotices, type Notice } from './notices.ts';

const { sql, addWebhook, addStore } = await startEngine();

/** A webhook with a warning, and the mails that its store has received when stop ends. */
async function start() {
  const storeId = await addStore();
  const webhookId = await addWebhook('https://hooks.example.com/', { storeId });
  const shard = shardOf(webhookId);
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, is_warned)
    values (${shard}, ${webhookId}, 0, 6, now(), true)`;
  const mails: Mail[] = [];
  const notices = createNotices({
    sql,
    clock: systemClock,
    log: createLog('silent'),
    mailer: { send: (mail) => void mails.push(mail) },
    baseUrl: 'https://api.example.com',
    deactivateAfterSeconds: { hour: 3_600, long: 272_105 },
  });
  const mailsAfter = async (about: Notice['about']): Promise<number> => {
    notices.notify({ shard, webhookId, epoch: 0, about });
    await notices.stop();
    return mails.length;
  };
  return { storeId, webhookId, mailsAfter, ...notices };
}

test('a warning is mailed; stop sends the queued ones and drops later ones', async () => {
  const { mailsAfter } = await start();
  assert.equal(await mailsAfter('warning'), 1);
  assert.equal(await mailsAfter('warning'), 1);
});

test('a success, a disabling or another epoch cancels a warning, and a disabling is mailed', async () => {
  const [recovered, off, renewed] = [await start(), await start(), await start()];
  await sql`
    update webhook_state set consecutive_failures = 0, first_failure_at = null, is_warned = false
    where webhook_id = ${recovered.webhookId}`;
  await sql`update webhook set is_active = false, epoch = 1 where id = ${off.webhookId}`;
  await sql`update webhook set epoch = 2 where id = ${renewed.webhookId}`;
  for (const { mailsAfter } of [recovered, off, renewed]) assert.equal(await mailsAfter('warning'), 0);
  const switched = await start();
  await sql`update webhook set is_active = false, epoch = 1 where id = ${switched.webhookId}`;
  assert.equal(await switched.mailsAfter('failures'), 1);
});

test('no notice is mailed about a deleted webhook or to a store without an address', async () => {
  const [deleted, silent] = [await start(), await start()];
  await sql`delete from webhook where id = ${deleted.webhookId}`;
  await sql`update store set email = '' where id = ${silent.storeId}`;
  for (const { mailsAfter } of [deleted, silent]) assert.equal(await mailsAfter('gone'), 0);
});

test('a repeated notice within the hour is not mailed again', async () => {
  const { mailsAfter, webhookId, notify } = await start();
  for (let epoch = 0; epoch < 3; epoch += 1) notify({ shard: shardOf(webhookId), webhookId, epoch, about: 'gone' });
  assert.equal(await mailsAfter('failures'), 2);
});
