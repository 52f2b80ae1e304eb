import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertGolden } from '../../../test/setup/golden.ts';
import { reasonOf } from '../history/history-documents.ts';
import { developerMail, keyMail, noticeMail, type NoticeKind } from './mails.ts';
import type { NotifiedWebhook } from './notices-sql.ts';

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
