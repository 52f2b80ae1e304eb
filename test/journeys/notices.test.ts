/** The mails to a store about a webhook with failing deliveries: by a real mail server, on an advanced clock. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Worker } from '#delivery/worker.ts';
import { shardOf } from '#core/ids.ts';
import { startTestApp } from '../setup/app.ts';
import { startEngine } from '../setup/engine.ts';
import { startMailServer } from '../setup/mail-server.ts';
import { startReceiver, type Receiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const MINUTE_MS = 60_000;
const WARNING = 'Your webhook "hook" is failing';
const OFF = 'Your webhook "hook" was disabled';

const answering = (receiver: Receiver, code: number) =>
  receiver.answer((_got, response) => response.writeHead(code).end());

/** Sends deliveries to a receiver that answers 500, and returns the mails about it. */
async function start(t: TestContext) {
  const mails = await startMailServer();
  t.after(() => mails.stop());
  const engine = await startEngine({ smtpUrl: mails.url });
  const receiver = await startReceiver();
  answering(receiver, 500);
  const { sql, clock } = engine;
  const attempts = async () =>
    (await sql<{ n: number }[]>`select count(*) as n from attempt_log where outcome is not null`)[0]?.n ?? 0;
  const failures = async () =>
    (await sql<{ n: number }[]>`select consecutive_failures as n from webhook_state`)[0]?.n ?? 0;
  /** Lets this many probes fail, each after the longest gap of the breaker. */
  const fail = async (probes: number): Promise<void> => {
    for (let n = 0; n < probes; n += 1) {
      const before = await attempts();
      clock.advance(6 * MINUTE_MS);
      await until(attempts, (count) => count > before);
    }
  };
  const nextSubject = async () => (await mails.next()).subject;
  return { ...engine, mails, receiver, attempts, failures, fail, nextSubject };
}

test('a store is warned once and notified of the disable; after its owner enables the webhook, all counts start at zero', async (t) => {
  const { sql, mails, receiver, failures, fail, nextSubject, ...engine } = await start(t);
  const app = await startTestApp({ roles: ['serve'], sql });
  const webhookId = await engine.addWebhook(receiver.url, { storeId: app.storeId });
  await sql`update webhook set name = ${'hook\r\nBcc: eve@example.com'} where id = ${webhookId}`;
  const worker = await engine.startWorker();
  const path = `/webhooks/${webhookId}`;
  const actions = async () => {
    const rows = await sql<{ body: string }[]>`select body from event where resource_type = 'changelog' order by id`;
    return rows.map(({ body }) => JSON.parse(body) as { resource: string; action: string; actor: string });
  };

  await engine.publish([1, 2, 3, 4, 5, 6, 7, 8], worker, app.storeId);
  await until(failures, (count) => count === 5);
  await fail(4);
  assert.equal(mails.tries(), 0, '24 minutes are less than half an hour');
  await fail(1);
  const warning = await mails.next();
  assert.deepEqual(warning.to, ['owner@example.com']);
  assert.equal(warning.subject, WARNING.replace('hook"', 'hook Bcc: eve@example. com"'));
  assert.match(warning.text, /^10 consecutive attempts .* 127\.0\.0\.1:\d+ .* 500: /m);
  assert.ok(warning.text.includes(`\nhttp://localhost:8080${path}\n`));
  await fail(5);
  const off = await mails.next();
  assert.match(off.subject, /was disabled$/);
  assert.match(off.text, /^1\d consecutive attempts/m);
  assert.equal(mails.tries(), 2);
  const webhook = (await (await app.api('GET', path)).json()) as Record<string, unknown>;
  assert.deepEqual([webhook['is_active'], webhook['state']], ['0', 'inactive']);
  const last = (await actions()).at(-1);
  assert.deepEqual([last?.resource, last?.action, last?.actor], ['webhook', 'deactivated', 'halcyon']);

  assert.equal((await app.api('PATCH', path, { body: { is_active: '1', name: 'hook' } })).status, 200);
  const got = receiver.got.length;
  await engine.publish([11, 12, 13, 14, 15, 16, 17, 18], worker, app.storeId);
  await receiver.until(got + 1);
  await until(failures, (count) => count === 5);
  await fail(5);
  assert.equal(await nextSubject(), WARNING);
  answering(receiver, 204);
  engine.clock.advance(6 * MINUTE_MS);
  await until(failures, (count) => count === 0);
  const again = (await (await app.api('GET', path)).json()) as Record<string, unknown>;
  assert.deepEqual([again['is_active'], again['state']], ['1', 'ok']);
  const ends = (await actions()).filter(({ action }) => action === 'deactivated');
  assert.equal(ends.length, 1);
  assert.equal(mails.tries(), 3);
});

test('a worker that takes the shard over knows that the store was warned', async (t) => {
  const { addWebhook, startWorker, publish, clock, receiver, failures, fail, nextSubject } = await start(t);
  const webhookId = await addWebhook(receiver.url);
  const owns = (worker: Worker) =>
    until(
      async () => worker.ownedShards().includes(shardOf(webhookId)),
      (isOwned) => isOwned,
    );
  const first = await startWorker();
  await owns(first);
  await publish([1, 2, 3, 4, 5, 6, 7, 8], first);
  await until(failures, (count) => count === 5);
  await fail(5);
  assert.equal(await nextSubject(), WARNING);
  await first.stop();
  // Before that no one is mailed about the same webhook again, whichever worker owns the shard.
  clock.advance(60 * MINUTE_MS);
  await owns(await startWorker());
  await until(failures, (count) => count === 11);
  await fail(1);
  assert.equal(await nextSubject(), OFF);
});

test('the operator is mailed about a webhook that 410 disabled, in a text of its own', async (t) => {
  const mails = await startMailServer();
  t.after(() => mails.stop());
  const receiver = await startReceiver();
  answering(receiver, 410);
  const app = await startTestApp({ env: { SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' } });
  const events = ['transaction/created'];
  const hook = { name: 'hook', format: 'json', url: `${receiver.url}/secret`, encryption_key: 'a key', events };
  assert.equal((await app.api('POST', `/stores/${app.storeId}/webhooks`, { body: hook })).status, 201);
  const body = { event: 'transaction/created', resource: { id: 1 } };
  await app.api('POST', `/stores/${app.storeId}/events`, { body, token: app.platformToken });
  const { from, to, subject, text } = await mails.next();
  assert.deepEqual([from, to, subject], ['halcyon@example.com', ['owner@example.com'], OFF]);
  assert.match(text, /"hook" .*test\.example\.com .*127\.0\.0\.1:\d+ .*410/);
  assert.ok(!text.includes('/secret'));
});
