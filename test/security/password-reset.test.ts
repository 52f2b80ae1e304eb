/** A new password by a mailed link. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { createBrowser, PASSWORD, startAuthorizationServer } from './oauth-server.ts';
import { passwords } from '../setup/passwords.ts';

const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const server = await startAuthorizationServer({ SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' });
const { sql } = server;
const second = await server.startSecond();
const NEW = 'a battery, stapled';
const MINUTE = 60_000;

const newBrowser = (origin = server.origin) => createBrowser(origin);

let people = 0;
async function newPerson() {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  return { id, email };
}

const tokenIn = (text: string): string => /\/reset-password\?token=(hal_pr_[A-Za-z0-9_-]{43})$/m.exec(text)?.[1] ?? '';

const ask = (email: string) => newBrowser().post('/forgot-password', { email });
async function askForToken(email: string): Promise<string> {
  await ask(email);
  return tokenIn((await mails.next()).text);
}
const openLink = (token: string) => newBrowser().open(`/reset-password?token=${token}`);
const reset = (token: string, fields: Record<string, string> = {}, browser = newBrowser()) =>
  browser.post('/reset-password', { token, password: NEW, ...fields });

test('the link is mailed to the owner, works once, signs in and ends every session', async () => {
  const { email } = await newPerson();
  const before = newBrowser(second);
  await before.signIn(email);
  await ask(email.toUpperCase());
  const mail = await mails.next();
  assert.deepEqual(mail.to, [email]);
  const token = tokenIn(mail.text);
  const browser = newBrowser();
  assert.match((await browser.open(`/reset-password?token=${token}`)).text, new RegExp(email));
  const { status, location } = await reset(token, {}, browser);
  assert.deepEqual([status, location], [303, '/account?done=password']);
  assert.match((await browser.open('/account')).text, new RegExp(email));
  assert.equal((await before.open('/account')).status, 303, 'the other session ended');
  assert.equal((await newBrowser().signIn(email)).status, 422, 'the old password is invalid');
  assert.equal((await reset(token)).status, 410, 'the link is used up');
});

test('the browser that reset the password is a known device from then on', async () => {
  const { email } = await newPerson();
  const browser = newBrowser();
  await reset(await askForToken(email), {}, browser);
  for (let i = 0; i < 11; i += 1) await newBrowser().signIn(email, 'wrong password');
  const refused = await newBrowser().signIn(email, NEW);
  assert.equal(refused.status, 429);
  assert.match(refused.text, /<a href="\/forgot-password">/, 'a mailed link works at once');
  assert.equal((await browser.signIn(email, NEW)).status, 303);
  server.wait(60 * MINUTE);
});

test('strangers do not use up the mails for a browser that has signed in', async () => {
  const { email } = await newPerson();
  const browser = newBrowser();
  await browser.signIn(email);
  const statuses: number[] = [];
  for (let i = 0; i < 4; i += 1) statuses.push((await ask(email)).status);
  assert.deepEqual(statuses, [200, 200, 200, 429]);
  for (let i = 0; i < 3; i += 1) assert.equal((await browser.post('/forgot-password', { email })).status, 200);
  assert.equal((await browser.post('/forgot-password', { email })).status, 429);
  for (let i = 0; i < 6; i += 1) await mails.next();
});

test('an address that browsers reject as an e-mail address can be typed', async () => {
  assert.match((await newBrowser().open('/forgot-password')).text, /<input\s+type="text"\s+id="email"/);
});

test('a password manager can read the user name of the form', async () => {
  const { email } = await newPerson();
  const { text } = await openLink(await askForToken(email));
  const [field = ''] = /<input[^>]*autocomplete="username"[^>]*>/.exec(text) ?? [];
  assert.ok(field.includes(`value="${email}"`) && field.includes('hidden'), field);
});

test('a common password is rejected, and the link stays usable', async () => {
  const { email } = await newPerson();
  const token = await askForToken(email);
  const refused = await reset(token, { password: 'Password123!' });
  assert.equal(refused.status, 422);
  assert.match(refused.text, /password is easy to guess: it differs little from a common password/);
  assert.equal((await reset(token)).status, 303);
});

test('opening the link, and HEAD as mail scanners send it, do not use it up', async () => {
  const { email } = await newPerson();
  const token = await askForToken(email);
  for (let i = 0; i < 3; i += 1) {
    assert.equal((await openLink(token)).status, 200);
    assert.equal((await newBrowser().head(`/reset-password?token=${token}`)).status, 200);
  }
  assert.equal((await reset(token)).status, 303);
});

test('of fifty concurrent uses of a link, in two processes, one succeeds', async () => {
  const { email } = await newPerson();
  const token = await askForToken(email);
  const uses = Array.from({ length: 50 }, (_, at) =>
    reset(token, { password: `${NEW} ${at}` }, newBrowser(at % 2 === 0 ? server.origin : second)),
  );
  const statuses = (await Promise.all(uses)).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 303).length, 1);
  assert.equal(statuses.filter((status) => status === 410).length, 49);
  const winner = statuses.indexOf(303);
  assert.equal((await newBrowser().signIn(email, `${NEW} ${winner}`)).status, 303);
});

test('a link works for an hour and not a second longer', async () => {
  const [early, late] = [await newPerson(), await newPerson()];
  const [first, other] = [await askForToken(early.email), await askForToken(late.email)];
  server.wait(59 * MINUTE + 59_000);
  assert.equal((await reset(first)).status, 303);
  server.wait(1_000);
  assert.equal((await openLink(other)).status, 410);
  assert.equal((await reset(other)).status, 410);
});

test('further requested links do not end the one that the owner is about to use', async () => {
  const { email } = await newPerson();
  const own = await askForToken(email);
  for (let i = 0; i < 2; i += 1) await askForToken(email);
  assert.equal((await reset(own)).status, 303);
});

test('the newest three links work, the one before them no longer, and none after one was used', async () => {
  const { email } = await newPerson();
  const tokens: string[] = [];
  for (let i = 0; i < 4; i += 1) {
    tokens.push(await askForToken(email));
    server.wait(i === 2 ? 20 * MINUTE : 1_000);
  }
  const [oldest = '', next = '', third = '', newest = ''] = tokens;
  const statuses = (all: readonly string[]) => Promise.all(all.map(async (token) => (await openLink(token)).status));
  assert.deepEqual(await statuses(tokens), [410, 200, 200, 200]);
  assert.equal((await reset(oldest)).status, 410);
  assert.equal((await reset(next)).status, 303);
  assert.deepEqual(await statuses([third, newest]), [410, 410]);
});

test('however often an attacker requests links, mails are few and the link of the last one always works', async () => {
  const { email } = await newPerson();
  let [sent, latest] = [0, ''];
  for (let i = 0; i < 12 * 12; i += 1) {
    if ((await ask(email)).status === 200) {
      sent += 1;
      latest = tokenIn((await mails.next()).text);
    }
    assert.equal((await openLink(latest)).status, 200, `after ${i * 5} minutes`);
    server.wait(5 * MINUTE);
  }
  assert.ok(sent < 24, `${sent} mails in twelve hours`);
  server.wait(24 * 60 * MINUTE);
});

test('a change of the password ends the links', async () => {
  const { email } = await newPerson();
  const token = await askForToken(email);
  const browser = newBrowser();
  await browser.signIn(email);
  const [, nonce = ''] = /name="nonce" value="([^"]*)"/.exec((await browser.open('/account/password')).text) ?? [];
  await browser.post('/account/password', { nonce, current: PASSWORD, password: NEW });
  assert.equal((await reset(token)).status, 410);
});

test('an address without an account gets the same answer, and no mail', async () => {
  const { email } = await newPerson();
  const known = await ask(email);
  const unknown = await ask('unknown@example.com');
  assert.deepEqual([known.status, unknown.status], [200, 200]);
  assert.equal(unknown.text, known.text.replace(email, 'unknown@example.com'));
  assert.deepEqual((await mails.next()).to, [email]);
  // A link requested after it has arrived: a mail for the unknown address would have come before.
  const { email: last } = await newPerson();
  await ask(last);
  assert.deepEqual((await mails.next()).to, [last]);
});

test('a disabled user gets no mail, and an earlier link is invalid', async () => {
  const [disabled, next] = [await newPerson(), await newPerson()];
  const token = await askForToken(disabled.email);
  await sql`update users set date_disabled = now() where id = ${disabled.id}`;
  assert.equal((await openLink(token)).status, 410);
  assert.equal((await reset(token)).status, 410);
  await ask(disabled.email);
  await ask(next.email);
  assert.deepEqual((await mails.next()).to, [next.email]);
});

test('an invalid password is rejected, and the link still works', async () => {
  const { email } = await newPerson();
  const token = await askForToken(email);
  for (const password of ['short', email, 'a'.repeat(1_001)]) {
    const page = await reset(token, { password });
    assert.equal(page.status, 422);
    assert.match(page.text, /aria-invalid="true"/);
  }
  assert.equal((await reset(token)).status, 303);
});

test('a malformed link is an invalid one', async () => {
  for (const token of ['', 'x', 'hal_pr_', `hal_pr_${'A'.repeat(43)}`, `hal_pr_${'A'.repeat(44)}`, '%00']) {
    assert.equal((await openLink(token)).status, 410, token);
    assert.equal((await reset(token)).status, 410, token);
  }
});

test('a reset ends the session of another user in this browser', async () => {
  const [owner, guest] = [await newPerson(), await newPerson()];
  const browser = newBrowser();
  await browser.signIn(guest.email);
  const before = browser.jar.get('halcyon') ?? '';
  await reset(await askForToken(owner.email), {}, browser);
  assert.match((await browser.open('/account')).text, new RegExp(owner.email));
  browser.jar.set('halcyon', before);
  assert.equal((await browser.open('/account')).status, 303);
});

test('one account gets three mails, then one every twenty minutes, whether or not it exists', async () => {
  const { email } = await newPerson();
  for (const each of [email, 'unknown.at.all@example.com']) {
    for (let i = 0; i < 3; i += 1) assert.equal((await ask(each)).status, 200);
    const refused = await ask(each);
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '1200']);
  }
  for (let i = 0; i < 3; i += 1) await mails.next();
  server.wait(20 * MINUTE);
  assert.notEqual(await askForToken(email), '');
});

test('connected apps stay unless the box is ticked', async () => {
  const live = async () =>
    (await sql`select id from access_grant where user_id = ${server.adaId} and date_revoked is null`).length;
  await server.redeem(await server.newCode());
  assert.equal((await reset(await askForToken(server.ada))).status, 303);
  assert.equal(await live(), 1);
  assert.equal((await reset(await askForToken(server.ada), { end_grants: '1' })).status, 303);
  assert.equal(await live(), 0);
});

test('neither the database nor a later page contains the link', async () => {
  const { email } = await newPerson();
  const token = await askForToken(email);
  const rows = await sql<{ row: string }[]>`select password_reset::text as row from password_reset`;
  assert.ok(rows.length > 0);
  for (const { row } of rows) {
    assert.ok(!row.includes(token));
    assert.ok(!row.includes(Buffer.from(token).toString('hex')));
  }
  assert.equal((await openLink(token)).headers.get('referrer-policy'), 'same-origin');
});

test('without a mail server the page names the contact', async () => {
  const bare = await startAuthorizationServer();
  const browser = newBrowser(bare.origin);
  for (const page of [
    await browser.open('/forgot-password'),
    await browser.post('/forgot-password', { email: bare.ada }),
  ]) {
    assert.equal(page.status, 200);
    assert.match(page.text, /Ask its operator/);
    assert.doesNotMatch(page.text, /<form method="post" action="\/forgot-password"/);
  }
});
