import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noticeMail, type About } from './mails.ts';
import type { Noticed } from './queries.ts';

const failing: Noticed = {
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
  consecutiveFailures: 7,
  firstFailureAt: new Date('2026-11-21T12:00:00Z'),
  isWarned: true,
  outcome: 'refused',
  responseCode: 503,
};
const circumstances = {
  now: new Date('2026-11-21T12:33:00Z'),
  baseUrl: 'https://api.example.com',
  deactivateAfterSeconds: { hour: 3_600, long: 272_105 },
};
const mailOf = (about: About, own: Partial<Noticed> = {}) => noticeMail({ ...failing, ...own }, about, circumstances);

test('a warning says what fails since when, what was answered, and when it is switched off', () => {
  assert.deepEqual(mailOf('warning'), {
    to: 'ada@example.com',
    subject: 'Your webhook "Orders" is failing',
    text: `Hello,

nothing arrives at the webhook "Orders" of shop.example.com.

7 attempts in a row to deliver to hooks.example.com:8443 have failed since 2026-11-21 13:00 (Europe/Berlin). About the last one: Your endpoint answered 503: it is overloaded, or down for a while. Check that it runs.

Deliveries are tried again. If all of them go on failing, the webhook is switched off, at 2026-11-21 14:00 (Europe/Berlin) at the earliest.

The webhook, and the attempts to deliver to it:

https://api.example.com/webhooks/2281
`,
    isNotice: true,
  });
});

test('no time is named that has passed, and each profile has its own', () => {
  const slow = { firstFailureAt: new Date('2026-11-20T12:00:00Z') };
  assert.match(mailOf('warning', slow).text, /the webhook is switched off\.$/m);
  assert.match(
    mailOf('warning', { ...slow, retryProfile: 'long' }).text,
    /, at 2026-11-23 16:35 \(Europe\/Berlin\) at the/,
  );
});

test('who was switched off reads why, and how it goes on', () => {
  const [failed, gone] = [mailOf('failures'), mailOf('gone')];
  assert.equal(failed.subject, 'Your webhook "Orders" was switched off');
  assert.match(
    failed.text,
    /switched off, because nothing arrives there\.\n\n7 attempts in a row .* answered 503: .*\n/,
  );
  assert.match(gone.text, /switched off: hooks\.example\.com:8443 answered with 410, /);
  for (const { text } of [failed, gone]) assert.match(text, /switch the webhook on again, .* "recover"\.\n/);
});

test('the last attempt is told in words, and left out where it was our own fault or nothing is known', () => {
  const sentence = (outcome: string | null, responseCode: number | null = null) =>
    /Berlin\)\.(.*)\n/.exec(mailOf('failures', { outcome, responseCode }).text)?.[1]?.trim();
  assert.match(sentence('unreachable:dns') ?? '', /^About the last one: The host of the url does not exist\. /);
  for (const outcome of ['delivered', 'internal', null]) assert.equal(sentence(outcome, 204), '');
  const { text } = mailOf('failures', { consecutiveFailures: null, firstFailureAt: null, url: null });
  assert.match(text, /^All attempts to deliver to its endpoint have failed\. /m);
});

test('of the url only the host is told', () => {
  for (const about of ['warning', 'failures', 'gone'] as const) {
    const { subject, text } = mailOf(about);
    assert.doesNotMatch(subject + text, /secret|services|token/, about);
  }
});

test('a name stands on one line and is short, whatever is in it', () => {
  const name = `Orders\r\nBcc: eve@example.com\n\n\u202Egnp.exe\u0000${'x'.repeat(255)}`;
  const { subject, text } = mailOf('warning', { name });
  const shown = `"Orders Bcc: eve@example.com gnp.exe ${'x'.repeat(23)}…"`;
  assert.equal(subject, `Your webhook ${shown} is failing`);
  assert.ok(text.includes(`the webhook ${shown} of`));
});
