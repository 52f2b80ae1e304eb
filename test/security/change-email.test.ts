/** The change of an e-mail address: verified by a link to the new address, and stopped or undone by one to the former. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from 'fast-check';
import { createUser } from '#identity/accounts/users.ts';
import { amountOf } from '../setup/amount.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { createBrowser, ISSUER, PASSWORD, startAuthorizationServer, type Browser } from './oauth-server.ts';
import { hiddenIn, submit } from './page-forms.ts';
import { passwords } from '../setup/passwords.ts';
import { anyText } from '../setup/any-text.ts';

const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const server = await startAuthorizationServer({ SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' });
const { sql } = server;
const second = await server.startSecond();
const HOUR = 3_600_000;

const newBrowser = (origin = server.origin) => createBrowser(origin);

let people = 0;
async function newPerson() {
  people += 1;
  const [email, newEmail] = [`person${people}@example.com`, `new${people}@example.com`];
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const browser = newBrowser();
  await browser.signIn(email);
  return { id, email, newEmail, browser };
}

const ask = (browser: Browser, email: string, current = PASSWORD) =>
  submit(browser, '/account/email', '/account/email', { email, current });

const linkIn = (text: string): string =>
  new RegExp(`${ISSUER}(/(?:account/email/|undo-email)\\S+)$`, 'm').exec(text)?.[1] ?? '';

/** Requests a change and returns the paths of the links of both mails; `to` the recipients and subjects. */
async function request(browser: Browser, email: string) {
  const page = await ask(browser, email);
  const both = [await mails.next(), await mails.next()];
  const undo = both.find(({ subject }) => subject === 'Your e-mail address is being changed');
  const confirm = both.find((mail) => mail !== undo);
  return {
    page,
    confirm: linkIn(confirm?.text ?? ''),
    undo: linkIn(undo?.text ?? ''),
    to: [confirm?.to, undo?.to],
    mail: confirm,
  };
}

const confirm = (browser: Browser, link: string) => submit(browser, link, '/account/email/confirm');
const undo = (browser: Browser, link: string) => submit(browser, link, '/undo-email');
const emailOf = async (id: number) =>
  (await sql<{ email: string }[]>`select email from users where id = ${id}`)[0]?.email;
const actionsOf = async (id: number) => {
  const rows = await sql<{ action: string }[]>`
    select action from audit where user_id = ${id} and action like 'email%' order by id`;
  return rows.map(({ action }) => action);
};

test('the link mailed to the new address makes the change, once, and both addresses are mailed', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  const { page, confirm: link, to } = await request(browser, newEmail);
  assert.equal(page.status, 200);
  assert.deepEqual(to, [[newEmail], [email]]);
  assert.equal(await emailOf(id), email, 'nothing changes before the link is used');
  const done = await confirm(browser, link);
  assert.deepEqual([done.status, done.location], [303, '/account?done=email']);
  assert.match((await browser.open('/account?done=email')).text, new RegExp(`role="status".*${newEmail}`, 's'));
  assert.equal((await browser.open(link)).status, 410);
  assert.equal((await newBrowser().signIn(newEmail)).status, 303);
  assert.equal((await newBrowser().signIn(email)).status, 422);
  assert.deepEqual(await actionsOf(id), ['email_change_requested', 'email_changed']);
});

test('a request needs the current password and a valid other address', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  for (const [address, password, field] of [
    [newEmail, 'wrong password', 'current'],
    ['no address', PASSWORD, 'email'],
    [email, PASSWORD, 'email'],
  ] as const) {
    const page = await ask(browser, address, password);
    assert.equal(page.status, 422);
    assert.match(page.text, new RegExp(`id="${field}"[^>]*aria-invalid="true"`), address);
  }
  assert.deepEqual(await actionsOf(id), []);
});

test('opening the links changes nothing', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  const links = await request(browser, newEmail);
  for (const link of [links.confirm, links.undo]) {
    assert.equal((await browser.head(link)).status, 200);
    assert.equal((await browser.open(link)).status, 200);
  }
  assert.equal(await emailOf(id), email);
});

test('the reader of a mistyped address cannot confirm it: the link needs the session of the person', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  const other = await newPerson();
  const { confirm: link } = await request(browser, newEmail);
  const { status, location } = await newBrowser().open(link);
  assert.deepEqual([status, location], [303, `/sign-in?return_to=${encodeURIComponent(link)}`]);
  assert.equal((await other.browser.open(link)).status, 410);
  assert.equal(await emailOf(id), email);
});

test('the link to the new address ends after a day, with its use, and with a newer request', async () => {
  const { id, newEmail, browser } = await newPerson();
  const first = await request(browser, newEmail);
  const latest = await request(browser, `again-${newEmail}`);
  assert.equal((await browser.open(first.confirm)).status, 410);
  const page = await browser.open(latest.confirm);
  server.wait(24 * HOUR - 1_000);
  assert.equal((await browser.open(latest.confirm)).status, 200);
  server.wait(2_000);
  const form = hiddenIn(page, '/account/email/confirm');
  assert.equal((await browser.post('/account/email/confirm', form)).status, 410);
  assert.deepEqual(await actionsOf(id), ['email_change_requested', 'email_change_requested']);
});

test('the former address stops a change, and signs out all browsers', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  const links = await request(browser, newEmail);
  assert.equal((await undo(newBrowser(second), links.undo)).status, 200);
  assert.equal((await browser.open('/account')).status, 303);
  await browser.signIn(email);
  assert.equal((await browser.open(links.confirm)).status, 410);
  assert.equal((await newBrowser().open(links.undo)).status, 410);
  assert.deepEqual(await actionsOf(id), ['email_change_requested', 'email_change_cancelled']);
});

test('the former address takes the account back for seven days after the change', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  const links = await request(browser, newEmail);
  server.wait(23 * HOUR);
  await confirm(browser, links.confirm);
  server.wait(7 * 24 * HOUR - 1_000);
  assert.equal((await undo(newBrowser(), links.undo)).status, 200);
  assert.equal(await emailOf(id), email);
  assert.equal((await browser.open('/account')).status, 303);
  assert.deepEqual(await actionsOf(id), ['email_change_requested', 'email_changed', 'email_change_undone']);
});

test('after seven days a change cannot be undone', async () => {
  const { id, newEmail, browser } = await newPerson();
  const links = await request(browser, newEmail);
  await confirm(browser, links.confirm);
  server.wait(7 * 24 * HOUR + 1_000);
  assert.equal((await newBrowser().open(links.undo)).status, 410);
  assert.equal(await emailOf(id), newEmail);
});

test('a second change takes the account from the first address neither for good, nor back after its undoing', async () => {
  const { id, email, newEmail, browser } = await newPerson();
  const first = await request(browser, newEmail);
  await confirm(browser, first.confirm);
  server.wait(1_000);
  const later = await request(browser, `third-${newEmail}`);
  await confirm(browser, later.confirm);
  assert.equal(await emailOf(id), `third-${newEmail}`);
  await undo(newBrowser(), first.undo);
  assert.equal(await emailOf(id), email);
  assert.equal((await newBrowser().open(later.undo)).status, 410, 'the link of the second address is dead');
  assert.equal(await emailOf(id), email);
});

test('links to a new password that the former address got end with the change', async () => {
  const { email, newEmail, browser } = await newPerson();
  await newBrowser().post('/forgot-password', { email });
  const [, reset = ''] = /(\/reset-password\?token=\S+)/.exec((await mails.next()).text) ?? [];
  assert.equal((await newBrowser().open(reset)).status, 200);
  const links = await request(browser, newEmail);
  await confirm(browser, links.confirm);
  assert.equal((await newBrowser().open(reset)).status, 410);
});

test('an address with an account gets the same page, and a mail that says so', async () => {
  const { email, newEmail, browser } = await newPerson();
  const other = await newPerson();
  const taken = await request(browser, other.email.toUpperCase());
  assert.deepEqual([taken.mail?.to, taken.mail?.subject], [[other.email], 'You already have an account']);
  assert.equal(taken.confirm, '');
  const free = await request(browser, newEmail);
  assert.equal(taken.page.text.replaceAll(other.email, newEmail), free.page.text);
  assert.equal(free.to[1]?.[0], email);
});

test('the former address is reserved while the change can be undone', async () => {
  const { email, newEmail, browser } = await newPerson();
  const other = await newPerson();
  const links = await request(browser, newEmail);
  await confirm(browser, links.confirm);
  const user = { email: email.toUpperCase(), password: PASSWORD, now: server.now() };
  await assert.rejects(createUser(sql, passwords, user), { status: 409 });
  const foreign = await request(other.browser, email);
  assert.equal((await confirm(other.browser, foreign.confirm)).status, 409);
  server.wait(7 * 24 * HOUR + 1_000);
  await createUser(sql, passwords, { ...user, now: server.now() });
});

test('of concurrent changes to one address, in two processes, one succeeds', async () => {
  for (let round = 0; round < 5; round += 1) {
    const persons = [await newPerson(), await newPerson(), await newPerson()];
    const target = `wanted${round}@example.com`;
    const forms = [];
    for (const { browser, id } of persons) {
      const { confirm: link } = await request(browser, target);
      forms.push({ id, browser, form: hiddenIn(await browser.open(link), '/account/email/confirm') });
      server.wait(HOUR);
    }
    const pages = await Promise.all(
      forms.map(({ browser, form }, at) => {
        const elsewhere = createBrowser(at === 0 ? second : server.origin);
        for (const [name, value] of browser.jar) elsewhere.jar.set(name, value);
        return elsewhere.post('/account/email/confirm', form);
      }),
    );
    assert.deepEqual(
      pages.map(({ status }) => status).toSorted((a, b) => a - b),
      [303, 409, 409],
    );
    const [row] = await sql`select count(*)::int as owners from users where lower(email) = ${target}`;
    assert.equal(row?.['owners'], 1);
  }
});

test('of concurrent uses of one link, in two processes, one succeeds', async () => {
  const { id, newEmail, browser } = await newPerson();
  const { confirm: link, undo: back } = await request(browser, newEmail);
  const elsewhere = createBrowser(second);
  for (const [name, value] of browser.jar) elsewhere.jar.set(name, value);
  const form = hiddenIn(await browser.open(link), '/account/email/confirm');
  const uses = Array.from({ length: 20 }, (_, at) =>
    (at % 2 === 0 ? browser : elsewhere).post('/account/email/confirm', form),
  );
  const statuses = (await Promise.all(uses)).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 303).length, 1, statuses.join(' '));
  assert.ok(statuses.every((status) => status === 303 || status === 410));
  const undone = hiddenIn(await newBrowser().open(back), '/undo-email');
  const backs = Array.from({ length: 20 }, () => newBrowser().post('/undo-email', undone));
  const ended = (await Promise.all(backs)).map(({ status }) => status);
  assert.equal(ended.filter((status) => status === 200).length, 1, ended.join(' '));
  assert.deepEqual(await actionsOf(id), ['email_change_requested', 'email_changed', 'email_change_undone']);
});

test('concurrent use of both links ends with one address, and no error', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { id, email, newEmail, browser } = await newPerson();
    const links = await request(browser, newEmail);
    const pages = await Promise.all([browser.open(links.confirm), newBrowser().open(links.undo)]);
    const both = await Promise.all([
      browser.post('/account/email/confirm', hiddenIn(pages[0], '/account/email/confirm')),
      newBrowser().post('/undo-email', hiddenIn(pages[1], '/undo-email')),
    ]);
    assert.ok([303, 410].includes(both[0].status), String(both[0].status));
    assert.equal(both[1].status, 200);
    assert.equal(await emailOf(id), email);
    server.wait(HOUR);
  }
});

test('requests are limited, and each page says how long to wait', async () => {
  const { newEmail, browser } = await newPerson();
  const statuses: number[] = [];
  for (let i = 0; i < 6; i += 1) statuses.push((await ask(browser, `${i}${newEmail}`)).status);
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
  for (let i = 0; i < 10; i += 1) await mails.next();
  server.wait(24 * HOUR);
});

test('requests by others for the same address do not use up those of its person', async () => {
  const { newEmail, browser } = await newPerson();
  const { browser: other } = await newPerson();
  const statuses: number[] = [];
  for (let i = 0; i < 4; i += 1) statuses.push((await ask(other, newEmail)).status);
  assert.deepEqual(statuses, [200, 200, 200, 429]);
  assert.equal((await ask(browser, newEmail)).status, 200);
  for (let i = 0; i < 8; i += 1) await mails.next();
  server.wait(24 * HOUR);
});

test('for any token and fields, the pages answer without an internal error and change nothing', async () => {
  const { id, email, browser } = await newPerson();
  const paths = ['/account/email', '/account/email/confirm', '/undo-email'] as const;
  const text = fc.oneof(
    anyText({ maxLength: 60 }).map((value) => value.toWellFormed()),
    fc.constantFrom(`hal_ec_${'A'.repeat(43)}`, `hal_eu_${'A'.repeat(43)}`, 'hal_ec_', '\0', 'a@b.cd'),
  );
  const fields = fc.dictionary(fc.constantFrom('token', 'nonce', 'email', 'current', 'x'), text);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...paths), fields, async (path, given) => {
      const query = new URLSearchParams(given).toString();
      for (const page of [await browser.open(`${path}?${query}`), await browser.post(path, given)])
        assert.ok([200, 403, 410, 400].includes(page.status), `${path}?${query} ${page.status}`);
    }),
    { numRuns: amountOf('any-form', { all: 150, part: 40 }) },
  );
  assert.equal(await emailOf(id), email);
});

test('without a mail server the page says so', async () => {
  const silent = await startAuthorizationServer();
  const { status, text } = await silent.browser.open('/account/email');
  assert.equal(status, 200);
  assert.doesNotMatch(text, /<form method="post" action="\/account\/email"/);
});
