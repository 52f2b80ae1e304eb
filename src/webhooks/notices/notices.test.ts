import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import type { Mail } from '#mail/mailer.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { assertGolden } from '../../../test/setup/golden.ts';
import { reasonOf } from '../history/history-documents.ts';
import {
  createNotices,
  type Notice,
  developerMail,
  keyMail,
  noticeMail,
  type NoticeKind,
  createNoticeLimits,
  type NoticeLimits,
} from './notices.ts';
import type { NotifiedWebhook } from './notices-sql.ts';

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
    accounts: sql,
    sql,
    clock: systemClock,
    log: createLog('silent'),
    mailer: { send: (mail) => void mails.push(mail) },
    baseUrl: 'https://api.example.com',
    authUrl: 'https://id.example.com',
    deactivateAfterSeconds: { hour: 3_600, long: 272_105 },
  });
  const mailsAfter = async (about: Notice['about']): Promise<number> => {
    notices.notify({ shard, webhookId, epoch: 0, about });
    await notices.stop();
    return mails.length;
  };
  return { storeId, webhookId, mails, mailsAfter, ...notices };
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

test('mails about a sandbox store go to its developer, and to no one if the address is not verified', async () => {
  const { storeId, mails, mailsAfter } = await start();
  await sql`insert into users (id, email, password_hash, date_created, is_email_verified)
    values (7001, 'sandbox@example.com', '', now(), false)`;
  await sql`update store set sandbox_of = 7001 where id = ${storeId}`;
  assert.equal(await mailsAfter('gone'), 0);
  const verified = await start();
  await sql`update store set sandbox_of = null where id = ${storeId}`;
  await sql`update store set sandbox_of = 7001 where id = ${verified.storeId}`;
  await sql`update users set is_email_verified = true where id = 7001`;
  assert.equal(await verified.mailsAfter('gone'), 1);
  assert.equal(verified.mails[0]?.to, 'sandbox@example.com');
  assert.deepEqual(mails, []);
});

test('a repeated notice within the hour is not mailed again', async () => {
  const { mailsAfter, webhookId, notify } = await start();
  for (let epoch = 0; epoch < 3; epoch += 1) notify({ shard: shardOf(webhookId), webhookId, epoch, about: 'gone' });
  assert.equal(await mailsAfter('failures'), 2);
});

const people = { next: 0 };

/** Makes the webhook one that an app of a developer created for a user with access to the store. */
async function ofApp({ webhookId, storeId }: { webhookId: number; storeId: number }) {
  people.next += 1;
  const [developer, user, client] = [1, 2, 3].map((n) => people.next * 10 + n) as [number, number, number];
  for (const id of [developer, user])
    await sql`insert into users (id, email, password_hash, date_created) values (${id}, ${`u${id}@example.com`}, '', now())`;
  await sql`insert into client (id, client_id, name, redirect_uris, trusted, date_created, owner)
    values (${client}, ${`app-${client}`}, 'App', '{https://app.example.com}', false, now(), ${developer})`;
  await sql`insert into access_grant (id, client, user_id, store_id, scope, date_created)
    values (${client}, ${client}, ${user}, ${storeId}, 'store_full_access', now())`;
  await sql`update webhook set client = ${client}, user_id = ${user} where id = ${webhookId}`;
  return { developer, client };
}

test('the developer of the app that created the webhook is mailed as well', async () => {
  const started = await start();
  const { developer } = await ofApp(started);
  assert.equal(await started.mailsAfter('failures'), 2);
  assert.deepEqual(started.mails.map(({ to }) => to).at(-1), `u${developer}@example.com`);
});

test('each new key is mailed to the developer of the app, and not to the store', async () => {
  const started = await start();
  const { developer } = await ofApp(started);
  started.notify({ shard: shardOf(started.webhookId), webhookId: started.webhookId, epoch: 0, about: 'key' });
  assert.equal(await started.mailsAfter('key'), 2);
  assert.deepEqual(new Set(started.mails.map(({ to }) => to)), new Set([`u${developer}@example.com`]));
});

test('no developer is mailed whose app has lost access or is deleted, or whose address is not verified or disabled', async () => {
  const changes = [
    ({ client }: { client: number }) => sql`update access_grant set date_revoked = now() where client = ${client}`,
    ({ client }: { client: number }) => sql`update client set date_deleted = now() where id = ${client}`,
    ({ developer }: { developer: number }) => sql`update users set is_email_verified = false where id = ${developer}`,
    ({ developer }: { developer: number }) => sql`update users set date_disabled = now() where id = ${developer}`,
  ];
  for (const change of changes) {
    const started = await start();
    await change(await ofApp(started));
    assert.equal(await started.mailsAfter('failures'), 1);
  }
});

const failing: NotifiedWebhook = {
  id: 2281,
  name: 'Orders',
  url: 'https://hooks.example.com:8443/services/T000/secret-in-the-path?token=secret-in-the-query',
  isActive: true,
  epoch: 0,
  retryProfile: 'hour',
  storeId: 257,
  storeDomain: 'shop.example.com',
  email: 'ada@example.com',
  timeZone: 'Europe/Berlin',
  rotationEndsAt: null,
  consecutiveFailures: 7,
  firstFailureAt: new Date('2026-11-21T12:00:00Z'),
  isWarned: true,
  outcome: 'refused',
  responseCode: 503,
  app: null,
};
const circumstances = {
  now: new Date('2026-11-21T12:33:00Z'),
  baseUrl: 'https://api.example.com',
  authUrl: 'https://id.example.com',
  deactivateAfterSeconds: { hour: 3_600, long: 272_105 },
};
const mailOf = (about: NoticeKind, own: Partial<NotifiedWebhook> = {}) =>
  noticeMail({ ...failing, ...own }, about, circumstances);

test('a warning names the failure, its start, the response and the time of disabling', () => {
  const { text, ...head } = mailOf('warning');
  assert.deepEqual(head, { to: 'ada@example.com', subject: 'Your webhook "Orders" is failing', isNotice: true });
  assert.match(text, /"Orders" of shop\.example\.com/);
  assert.match(text, /^7 consecutive .* hooks\.example\.com:8443 .* 2026-11-21 13:00 \(Europe\/Berlin\).* 503: /m);
  assert.match(text, /disabled, .*2026-11-21 14:00 \(Europe\/Berlin\)/);
  assert.match(text, /^https:\/\/api\.example\.com\/webhooks\/2281\n$/m);
});

const app = { clientId: 'q3Jm0vZxT8uKfW2c', name: 'Shipping', developer: 'dev@example.com' };

test('the mail to the developer links to all webhooks of the app', () => {
  const mail = developerMail({ ...failing, app }, 'warning', circumstances);
  assert.equal(mail?.to, 'dev@example.com');
  assert.equal(mail?.subject, 'A webhook of your app "Shipping" is failing');
  assert.match(mail?.text ?? '', /"Orders" of shop\.example\.com/);
  assert.match(mail?.text ?? '', /^https:\/\/id\.example\.com\/account\/clients\/q3Jm0vZxT8uKfW2c\n$/m);
});

test('a webhook without an app, an app of the operator and the address of the store get no second mail', () => {
  for (const own of [null, { ...app, developer: null }, { ...app, developer: 'Ada@example.com' }])
    assert.equal(developerMail({ ...failing, app: own }, 'gone', circumstances), undefined);
});

test('a mail about a new key names the end of the overlap while it lasts, and no key', () => {
  const mailAt = (rotationEndsAt: Date | null) =>
    keyMail({ ...failing, app, rotationEndsAt }, circumstances)?.text ?? '';
  assert.match(mailAt(new Date('2026-11-22T12:33:00Z')), /with both keys until 2026-11-22 13:33 \(Europe\/Berlin\)/);
  for (const ended of [null, new Date('2026-11-21T12:33:00Z')]) assert.match(mailAt(ended), /only with the new key/);
  assert.equal(keyMail({ ...failing, app: { ...app, developer: null } }, circumstances), undefined);
});

test('the wording of the mails is as reviewed', async () => {
  const mails = (['warning', 'failures', 'gone'] as const).map((about) => mailOf(about));
  const toDeveloper = developerMail({ ...failing, app }, 'failures', circumstances);
  if (toDeveloper !== undefined) mails.push(toDeveloper);
  for (const rotationEndsAt of [new Date('2026-11-22T12:33:00Z'), null])
    mails.push(keyMail({ ...failing, app, rotationEndsAt }, circumstances) ?? assert.fail('no mail'));
  const words = mails.map(({ subject, text }) => `${subject}\n\n${text}`).join('\n');
  await assertGolden('mails.words', words);
});

test('no time in the past is named, and each profile has its own', () => {
  const slow = { firstFailureAt: new Date('2026-11-20T12:00:00Z') };
  assert.match(mailOf('warning', slow).text, /the webhook is disabled\.$/m);
  assert.match(
    mailOf('warning', { ...slow, retryProfile: 'long' }).text,
    /disabled, .*2026-11-23 16:35 \(Europe\/Berlin\)/,
  );
});

test('the mail about a disabled webhook says why, and how to continue', () => {
  const [failed, gone] = [mailOf('failures'), mailOf('gone')];
  assert.equal(failed.subject, 'Your webhook "Orders" was disabled');
  assert.match(failed.text, /disabled.*\n\n7 .* 503: /);
  assert.match(gone.text, /disabled.* hooks\.example\.com:8443 .*\b410\b/);
  for (const { text } of [failed, gone]) assert.match(text, /\benable the webhook again\b.* "recover"\.\n/);
});

test('the last attempt is described, except an internal fault or an unknown one', () => {
  const sentence = (outcome: string | null, responseCode: number | null = null) =>
    /Berlin\)\.(.*)\n/.exec(mailOf('failures', { outcome, responseCode }).text)?.[1]?.trim();
  assert.ok(
    sentence('unreachable:dns')?.endsWith(reasonOf({ outcome: 'unreachable:dns', responseCode: null })?.text ?? '-'),
  );
  for (const outcome of ['delivered', 'internal', null]) assert.equal(sentence(outcome, 204), '');
  const { text } = mailOf('failures', { consecutiveFailures: null, firstFailureAt: null, url: null });
  assert.match(text, /^All attempts .* its endpoint /m);
});

test('only the host of the URL is mentioned', () => {
  for (const about of ['warning', 'failures', 'gone'] as const) {
    const { subject, text } = mailOf(about);
    assert.doesNotMatch(subject + text, /secret|services|token/, about);
  }
});

test('any name is on one line and short', () => {
  const name = `Orders\r\nBcc: eve@example.com\n\n\u202Egnp.exe\u0000${'x'.repeat(255)}`;
  const { subject, text } = mailOf('warning', { name });
  const shown = `"Orders Bcc: eve@example. com gnp. exe ${'x'.repeat(21)}…"`;
  assert.equal(subject, `Your webhook ${shown} is failing`);
  assert.ok(text.includes(`the webhook ${shown} of`));
});

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
    const one = { ...noticed, id: webhookId, storeId: to === 'ofStore' ? 1 : n, app: { ...app, clientId } };
    return limits[to](notice, one, n * everyMs);
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
