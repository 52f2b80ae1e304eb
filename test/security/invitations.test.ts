/** Invitations to a store: who can make, read and accept them, and what ends them. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { createThrottle } from '#identity/accounts/throttle.ts';
import { createInvitationPurges } from '#stores/stores-sql.ts';
import { homeOf } from '../setup/suite-map.ts';
import { faultsOf, itemsOf } from '../setup/caller.ts';
import { createFiller, filled } from '../setup/form-filler.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, ISSUER, type Browser } from './oauth-server.ts';
import { hiddenIn } from './page-forms.ts';

const HOUR_MS = 3_600_000;
const NEW = 'a battery, stapled';
const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const people = await startWithPeople({ SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' });
const { alpha, beta, foreign, ada, adaId, bob, bobId, sql, call } = people;
const second = await people.startSecond();
const INVITATIONS = `/stores/${alpha}/invitations`;
const owner = createFiller(people.origin, people.browser);

let platform = '';
beforeEach(async () => {
  // Mails and tries of the tests before have been refilled by then.
  people.wait(12 * HOUR_MS);
  await people.browser.signIn(ada);
  const granted = await people.token({ grant_type: 'client_credentials', scope: 'platform', ...people.platform });
  platform = String(granted.body['access_token']);
  await sql`delete from invitation`;
  await sql`delete from membership where store_id = ${alpha} and user_id <> ${adaId}`;
  await sql`update membership set role = 'owner' where store_id = ${alpha}`;
});

const pathIn = (link: unknown): string => {
  assert.match(String(link), /^http:\/\/auth\.example\.test\/invitations\/hal_in_[A-Za-z0-9_-]{43}$/);
  return new URL(String(link)).pathname;
};
/** Invites by the platform. */
async function invite(body: Record<string, unknown> = {}, store = alpha) {
  const made = await call('POST', `/stores/${store}/invitations`, {
    token: platform,
    body: { role: 'member', ...body },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const mail = body['email'] === undefined ? undefined : await mails.next();
  return { path: pathIn(made.body['link']), id: Number(made.body['id']), made, mail };
}
/** Invites by Ada, on the page. */
async function inviteAsOwner(fields: Record<string, string> = {}) {
  const form = filled(await owner.formFor(INVITATIONS, 'POST'), { role: 'member', ...fields });
  const response = await owner.send(INVITATIONS, form);
  const text = await response.text();
  return { response, text, form, path: /\/invitations\/hal_in_[A-Za-z0-9_-]{43}/.exec(text)?.[0] ?? '' };
}
async function signedIn(email: string, origin = people.origin): Promise<Browser> {
  const browser = createBrowser(origin);
  assert.equal((await browser.signIn(email)).status, 303);
  return browser;
}
async function accept(browser: Browser, path: string) {
  return browser.post(path, hiddenIn(await browser.open(path), path));
}
const tokenIn = ({ text }: { text: string }): string => /token=(hal_su_[\w-]{43})/.exec(text)?.[1] ?? '';
/** Creates an account with the link: the mail to the address has another link, which proves the mailbox. */
async function joinAs(path: string, email: string, browser = createBrowser(people.origin)) {
  const asked = await browser.post(path, { email });
  if (asked.status !== 200) return asked;
  return browser.post(path, { token: tokenIn(await mails.next()), password: NEW });
}
async function roleOf(userId: number, store = alpha): Promise<string | undefined> {
  const [row] = await sql<{ role: string }[]>`
    select role from membership where store_id = ${store} and user_id = ${userId}`;
  return row?.role;
}
const userOf = async (email: string) =>
  (
    await sql<{ id: number; isVerified: boolean }[]>`
    select id, is_email_verified as "isVerified" from users where email = ${email}`
  )[0];
let count = 0;
const newAddress = (): string => `guest${(count += 1)}@example.com`;

test('a new person chooses a password, is signed in, and opens the overview of the store', async () => {
  const { path, id } = await invite({ role: 'owner' });
  const email = newAddress();
  const browser = createBrowser(people.origin);
  const page = await browser.open(path);
  assert.equal(page.status, 200);
  assert.match(page.text, /Join Alpha/);
  assert.doesNotMatch(page.text, /type="password"/, 'the password is chosen with the mailed link');
  const joined = await joinAs(path, email, browser);
  assert.deepEqual([joined.status, joined.location], [303, `/stores/${alpha}/overview?done=joined`]);
  assert.match((await browser.open('/account')).text, new RegExp(email));
  const user = await userOf(email);
  assert.equal(await roleOf(user?.id ?? 0), 'owner');
  assert.equal((await call('GET', `${INVITATIONS}/${id}`, { token: platform })).status, 404, 'it is used up');
});

test('an existing account accepts after signing in', async () => {
  const { path } = await invite();
  const browser = createBrowser(people.origin);
  const { text } = await browser.open(path);
  const [, signIn = ''] = /href="(\/sign-in\?return_to=[^"]*)"/.exec(text) ?? [];
  assert.equal(new URL(signIn, people.origin).searchParams.get('return_to'), path);
  assert.equal(
    (await browser.post('/sign-in', { email: bob, password: 'correct horse battery', return_to: path })).location,
    path,
  );
  const joined = await accept(browser, path);
  assert.deepEqual([joined.status, joined.location], [303, `/stores/${alpha}/overview?done=joined`]);
  assert.equal(await roleOf(bobId), 'member');
  const overview = await createFiller(people.origin, browser).show(`/stores/${alpha}/overview?done=joined`);
  assert.match(await overview.text(), /You are a member of this store now/);
});

test('a token works once', async () => {
  const { path } = await invite();
  assert.equal((await joinAs(path, newAddress())).status, 303);
  assert.equal((await joinAs(path, newAddress())).status, 410);
  assert.equal((await accept(await signedIn(bob), (await invite()).path)).status, 303);
});

test('of concurrent acceptances in two processes one wins, and creates one account', async () => {
  const { path } = await invite();
  const browsers = Array.from({ length: 5 }, (_, i) => createBrowser(i % 2 === 0 ? people.origin : second));
  const before = await sql`select from users`;
  const tokens: string[] = [];
  for (const browser of browsers) {
    assert.equal((await browser.post(path, { email: newAddress() })).status, 200);
    tokens.push(tokenIn(await mails.next()));
  }
  const results = await Promise.all(
    browsers.map((browser, i) => browser.post(path, { token: tokens[i] ?? '', password: NEW })),
  );
  assert.deepEqual(
    results.map(({ status }) => status).toSorted((a, b) => a - b),
    [303, ...Array<number>(4).fill(410)],
  );
  assert.equal((await sql`select from users`).length, before.length + 1);
  assert.equal((await sql`select from membership where store_id = ${alpha}`).length, 2);
});

test('an invitation ends after 72 hours', async () => {
  const { path, id } = await invite();
  people.wait(72 * HOUR_MS - 1_000);
  assert.equal((await createBrowser(people.origin).open(path)).status, 200);
  people.wait(1_000);
  assert.equal((await createBrowser(people.origin).open(path)).status, 410);
  assert.equal((await joinAs(path, newAddress())).status, 410);
  const granted = await people.token({ grant_type: 'client_credentials', scope: 'platform', ...people.platform });
  const token = String(granted.body['access_token']);
  assert.equal((await call('GET', `${INVITATIONS}/${id}`, { token })).status, 404);
  assert.equal((await call('GET', INVITATIONS, { token })).body['total_items'], '0');
});

test('an expired invitation is deleted, and not a second before', async () => {
  await invite();
  const [invitations] = createInvitationPurges({ sql });
  const expires = people.now().getTime() + 72 * HOUR_MS;
  assert.equal(await invitations?.purge(100, new Date(expires - 1_000)), 0);
  assert.equal(await invitations?.purge(100, new Date(expires)), 1);
});

test('a revoked invitation cannot be accepted', async () => {
  const { path, id } = await invite();
  assert.equal((await call('DELETE', `${INVITATIONS}/${id}`, { token: platform })).status, 204);
  assert.equal((await joinAs(path, newAddress())).status, 410);
  assert.equal((await call('DELETE', `${INVITATIONS}/${id}`, { token: platform })).status, 404);
});

test('an invitation of another store cannot be revoked through an own one', async () => {
  // Of a store in the same shard.
  const other = alpha + 256 * 1_000;
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${alpha % 256}, ${other}, 'Same shard', 'same.example.com', '', 'UTC', ${people.now()}, ${people.now()})`;
  const { id } = await invite({}, other);
  assert.equal((await call('GET', `${INVITATIONS}/${id}`, { token: platform })).status, 404);
  assert.equal((await call('DELETE', `${INVITATIONS}/${id}`, { token: platform })).status, 404);
  assert.equal((await call('GET', `/stores/${other}/invitations/${id}`, { token: platform })).status, 200);
});

test('an invitation for an address is accepted by no other account, and does not show the address', async () => {
  const guest = newAddress();
  const { path } = await invite({ email: guest });
  const browser = await signedIn(bob);
  const page = await browser.open(path);
  assert.equal(page.status, 403);
  assert.doesNotMatch(page.text, new RegExp(`${guest}|Alpha`));
  // Bob opened the page before the invitation was for an address.
  await sql`update invitation set email = null, mailed_hash = null`;
  const form = hiddenIn(await browser.open(path), path);
  await sql`update invitation set email = ${guest}`;
  assert.equal((await browser.post(path, form)).status, 403);
  assert.equal(await roleOf(bobId), undefined);
  const joined = await joinAs(path, bob);
  assert.equal(joined.status, 303, 'a new account gets the address of the invitation, whatever the form says');
  assert.equal(await roleOf((await userOf(guest))?.id ?? 0), 'member');
});

test('an address is compared without case', async () => {
  const { path } = await invite({ email: bob.toUpperCase() });
  assert.equal((await accept(await signedIn(bob), path)).status, 303);
});

test('accepting changes no role: a member stays one, and the invitation stays valid', async () => {
  const { path } = await invite({ role: 'owner' });
  await call('POST', `/stores/${alpha}/members`, { token: platform, body: { user: bobId, role: 'member' } });
  const browser = await signedIn(bob);
  assert.equal((await browser.open(path)).status, 409);
  const other = await invite();
  await sql`delete from membership where user_id = ${bobId}`;
  const form = hiddenIn(await browser.open(path), path);
  await call('POST', `/stores/${alpha}/members`, { token: platform, body: { user: bobId, role: 'member' } });
  assert.equal((await browser.post(path, form)).status, 409);
  assert.equal(await roleOf(bobId), 'member');
  assert.equal((await browser.open(other.path)).status, 409);
  assert.equal((await createBrowser(people.origin).open(path)).status, 200);
});

test('the role is that of the invitation, not of the form', async () => {
  const { path } = await invite();
  const browser = await signedIn(bob);
  await browser.post(path, { ...hiddenIn(await browser.open(path), path), role: 'owner' });
  assert.equal(await roleOf(bobId), 'member');
});

test('another site, and a form of another session or invitation, cannot accept', async () => {
  const [{ path }, other] = [await invite(), await invite()];
  const browser = await signedIn(bob);
  const form = hiddenIn(await browser.open(path), path);
  const foreignSite = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' };
  assert.equal((await browser.post(path, form, foreignSite)).status, 403);
  assert.equal((await browser.post(path, {})).status, 403);
  assert.equal((await browser.post(other.path, form)).status, 403);
  assert.equal((await (await signedIn(bob)).post(path, form)).status, 403);
  assert.equal(
    (await createBrowser(people.origin).post(path, { email: newAddress(), password: NEW }, foreignSite)).status,
    403,
  );
  assert.equal(await roleOf(bobId), undefined);
});

test('tokens cannot be tried in great numbers, and a valid one is not counted', async () => {
  const { path } = await invite();
  const browser = createBrowser(people.origin);
  for (let i = 0; i < 22; i += 1) assert.equal((await browser.open(path)).status, 200);
  const guesses = await Promise.all(
    Array.from({ length: 25 }, (_, i) => browser.open(`/invitations/hal_in_${String(i).padStart(43, 'A')}`)),
  );
  const counts = Map.groupBy(guesses, ({ status }) => status);
  assert.deepEqual([counts.get(410)?.length, counts.get(429)?.length], [20, 5]);
  for (const { text } of guesses) assert.doesNotMatch(text, /Alpha/);
  assert.equal((await browser.open(path)).status, 429, 'a throttled guess has the response of a throttled hit');
});

test('an address with an account gets the same page as others, and a mail that says so', async () => {
  const { path } = await invite();
  const [free, browser] = [newAddress(), createBrowser(people.origin)];
  const taken = await browser.post(path, { email: bob.toUpperCase() });
  const mail = await mails.next();
  assert.deepEqual([mail.to, mail.subject], [[bob], 'You already have an account']);
  assert.ok(mail.text.includes(`${ISSUER}/sign-in?return_to=${encodeURIComponent(path)}`));
  const page = await browser.post(path, { email: free });
  await mails.next();
  assert.equal(taken.text.replaceAll(bob, free), page.text);
  assert.deepEqual([taken.status, page.status], [200, 200]);
});

test('a mailed link that is used, or for another address, does not join', async () => {
  const [{ path }, bound] = [await invite(), await invite({ email: newAddress() })];
  const browser = createBrowser(people.origin);
  await browser.post(path, { email: newAddress() });
  const token = tokenIn(await mails.next());
  assert.equal((await browser.post(bound.path, { token, password: NEW })).status, 403);
  assert.equal((await browser.post(path, { token: `${token.slice(0, -2)}__`, password: NEW })).status, 410);
  assert.equal((await browser.open(`${path}?token=${token.slice(0, -2)}__`)).status, 410);
  assert.match((await browser.open(`${path}?token=${token}`)).text, /type="password"/);
  assert.equal((await browser.post(path, { token, password: NEW })).status, 303);
  assert.equal((await createBrowser(people.origin).post((await invite()).path, { token, password: NEW })).status, 410);
});

test('the links that one inviter has mailed to an address do not use up those of another, and stay valid', async () => {
  const guest = newAddress();
  const ask = (path: string) => createBrowser(people.origin).post(path, { email: guest });
  const { path: first } = await inviteAsOwner();
  const { path: other } = await invite();
  const tokens: string[] = [];
  for (let i = 0; i < 3; i += 1) {
    assert.equal((await ask(first)).status, 200);
    tokens.push(tokenIn(await mails.next()));
  }
  assert.equal((await ask((await inviteAsOwner()).path)).status, 429, 'a new invitation renews nothing');
  assert.equal((await ask(other)).status, 200);
  await mails.next();
  const [token = ''] = tokens;
  assert.equal((await createBrowser(people.origin).post(first, { token, password: NEW })).status, 303);
});

test('the password rules are those of all accounts', async () => {
  const { path } = await invite();
  const browser = createBrowser(people.origin);
  await browser.post(path, { email: newAddress() });
  const token = tokenIn(await mails.next());
  for (const password of ['', 'short', 'password123']) {
    const refused = await browser.post(path, { token, password });
    assert.equal(refused.status, 422);
    assert.match(refused.text, /id="password"[^>]*aria-invalid="true"/);
  }
  assert.equal((await browser.post(path, { email: 'no address', password: NEW })).status, 422);
});

test('a member, an app and a visitor neither read nor make invitations', async () => {
  const { id } = await invite();
  await call('POST', `/stores/${alpha}/members`, { token: platform, body: { user: bobId, role: 'member' } });
  const member = createFiller(people.origin, await signedIn(bob));
  for (const path of [INVITATIONS, `${INVITATIONS}/${id}`]) assert.equal((await member.show(path)).status, 403);
  assert.doesNotMatch(await (await member.show(`/stores/${alpha}/members`)).text(), /invitations/);
  for (const scope of ['store_full_access', 'user_full_access']) {
    const token = await people.tokenOf({ scope });
    const body = { role: 'member' };
    assert.equal((await call('GET', INVITATIONS, { token })).status, 403);
    assert.equal((await call('POST', INVITATIONS, { token, body })).status, 403);
    assert.equal((await call('DELETE', `${INVITATIONS}/${id}`, { token })).status, 403);
    const seen = await call('GET', `/stores/${alpha}/members`, { token });
    assert.equal(seen.body._links['svc:invitations'], undefined);
  }
  assert.equal((await member.show(`/stores/${beta}/invitations`)).status, 404);
});

test('an owner who is demoted or removed leaves no invitation behind', async () => {
  for (const end of ['PATCH', 'DELETE'] as const) {
    await call('POST', `/stores/${alpha}/members`, { token: platform, body: { user: bobId, role: 'owner' } });
    const { path } = await inviteAsOwner();
    assert.equal((await createBrowser(people.origin).open(path)).status, 200);
    const member = `/stores/${alpha}/members/${adaId}`;
    const ended = await call(end, member, { token: platform, ...(end === 'PATCH' && { body: { role: 'member' } }) });
    assert.ok(ended.status < 300);
    assert.equal((await joinAs(path, newAddress())).status, 410);
    if (end === 'PATCH') await call('PATCH', member, { token: platform, body: { role: 'owner' } });
    else await call('POST', `/stores/${alpha}/members`, { token: platform, body: { user: adaId, role: 'owner' } });
    assert.equal((await joinAs(path, newAddress())).status, 410, 'it does not return with the role');
  }
});

test('the link is shown once, and only hashes are stored', async () => {
  const { made, id, path } = await invite({ email: newAddress() });
  assert.equal(made.headers.get('cache-control'), 'no-store');
  assert.equal(made.headers.get('location'), `${ISSUER}${INVITATIONS}/${id}`);
  const listed = itemsOf(await call('GET', INVITATIONS, { token: platform }), 'invitations');
  assert.deepEqual(
    listed.map(({ link, is_mailed: isMailed }) => [link, isMailed]),
    [[null, true]],
  );
  const [row] = await sql<{ text: string }[]>`select i::text as text from invitation i`;
  assert.ok(row !== undefined && !row.text.includes(path.split('/').at(-1) ?? ''));
});

test('the page of a new invitation shows its link, is not stored, and is the same when the form is sent again', async () => {
  const { response, text, form, path } = await inviteAsOwner();
  assert.deepEqual([response.status, response.headers.get('cache-control')], [201, 'no-store']);
  assert.ok(text.includes(`<pre class="command">\n${ISSUER}${path}</pre>`));
  const again = await owner.send(INVITATIONS, form);
  assert.ok((await again.text()).includes(`<pre class="command">\n${ISSUER}${path}</pre>`));
  assert.equal((await call('GET', INVITATIONS, { token: platform })).body['total_items'], '1');
});

test('an owner revokes in the row of an invitation, and only in the own session', async () => {
  const { path } = await inviteAsOwner();
  const members = `/stores/${alpha}/members`;
  const text = await (await owner.show(members)).text();
  const [, at = '', inside = ''] =
    /<form method="post" action="([^"]*invitations\/[0-9]+)"[^>]*>([^]*?)<\/form>/.exec(text) ?? [];
  const nonce = /name="nonce" value="([^"]*)"/.exec(inside)?.[1] ?? '';
  assert.match(text, /Anyone with the link[^]*By link, expires on/);
  const revoke = (value: string) => owner.send(at, new URLSearchParams({ _method: 'DELETE', nonce: value }));
  assert.equal((await revoke(`${nonce}x`)).status, 403);
  assert.equal((await createBrowser(people.origin).open(path)).status, 200);
  const revoked = await revoke(nonce);
  assert.deepEqual([revoked.status, revoked.headers.get('location')], [303, `${members}?done=deleted`]);
  const again = await revoke(nonce);
  assert.deepEqual([again.status, again.headers.get('location')?.split('=')[1]], [303, 'gone']);
  assert.equal((await createBrowser(people.origin).open(path)).status, 410);
});

test('a rejected invitation is shown again with its fault', async () => {
  const { response, text } = await inviteAsOwner({ email: 'no-address' });
  assert.equal(response.status, 400);
  assert.match(text, /value="no-address"/);
});

test('the mail has a token of its own, which proves the mailbox', async () => {
  const byMail = newAddress();
  const one = await invite({ email: byMail });
  assert.deepEqual(one.mail?.to, [byMail]);
  const mailed = /\/invitations\/hal_in_[\w-]{43}/.exec(one.mail.text)?.[0] ?? '';
  assert.notEqual(mailed, one.path);
  assert.equal((await createBrowser(people.origin).post(mailed, { password: NEW })).status, 303);
  assert.equal((await userOf(byMail))?.isVerified, true);
  assert.equal((await createBrowser(people.origin).open(one.path)).status, 410, 'both links end together');
});

test('a person who verifies the address joins in place of an account that had not', async () => {
  const email = newAddress();
  await joinAs((await invite({}, foreign)).path, email);
  const squatter = await userOf(email);
  // Made before the operator configured mail.
  await sql`update users set is_email_verified = false where email = ${email}`;
  const { mail, id } = await invite({ email });
  const mailed = /\/invitations\/hal_in_[\w-]{43}/.exec(mail?.text ?? '')?.[0] ?? '';
  assert.equal((await createBrowser(people.origin).post(mailed, { password: 'another one, stapled' })).status, 303);
  const verified = await userOf(email);
  assert.ok(verified !== undefined && verified.isVerified && verified.id !== squatter?.id);
  assert.equal(await roleOf(verified.id), 'member');
  assert.equal(await roleOf(squatter?.id ?? 0, foreign), undefined);
  assert.equal((await call('GET', `${INVITATIONS}/${id}`, { token: platform })).status, 404);
});

test('an invited person sees the invitation when signed in, and accepts or declines it', async () => {
  const received = `/users/${bobId}/invitations`;
  const person = createFiller(people.origin, await signedIn(bob));
  assert.match(await (await person.show(`/users/${bobId}`)).text(), new RegExp(`href="${received}"`));
  const [accepted, declined] = [
    await invite({ email: bob.toUpperCase(), role: 'owner' }, foreign),
    await invite({ email: bob }),
  ];
  await invite({ email: newAddress() });
  const list = await (await person.show(received)).text();
  assert.match(list, /Foreign[^]*Alpha/);
  const at = ({ id }: { id: number }) => `${received}/${id}`;
  const decline = await person.send(at(declined), await person.formFor(at(declined), 'DELETE'));
  assert.deepEqual([decline.status, decline.headers.get('location')], [303, `${received}?done=declined`]);
  assert.equal((await createBrowser(people.origin).open(declined.path)).status, 410);
  const [entry] = await sql<{ body: string }[]>`
    select body from event where store_id = ${alpha} and resource_type = 'changelog' order by id desc limit 1`;
  assert.match(entry?.body ?? '', new RegExp(`"action":"declined"[^]*"user":${bobId},`));
  const page = await (await person.show(at(accepted))).text();
  const [, nonce = ''] =
    new RegExp(`action="${at(accepted)}/accept"[^]*?name="nonce" value="([^"]*)"`).exec(page) ?? [];
  const join = () => person.send(`${at(accepted)}/accept`, new URLSearchParams({ nonce }));
  const joined = await join();
  assert.deepEqual([joined.status, joined.headers.get('location')], [303, `/stores/${foreign}/overview?done=joined`]);
  assert.equal(await roleOf(bobId, foreign), 'owner');
  assert.equal((await join()).status, 404);
  await sql`delete from membership where store_id = ${foreign}`;
});

test('an invitation is received by no other person, and by no app', async () => {
  const { id } = await invite({ email: bob });
  const open = await invite();
  const other = createFiller(people.origin, await signedIn(ada));
  const token = await people.tokenOf({ scope: 'user_full_access' });
  for (const path of [`/users/${bobId}/invitations`, `/users/${bobId}/invitations/${id}`]) {
    assert.equal((await other.show(path)).status, 404);
    assert.equal((await call('GET', path, { token: platform })).status, 404);
  }
  for (const one of [id, open.id]) assert.equal((await other.show(`/users/${adaId}/invitations/${one}`)).status, 404);
  assert.equal((await call('GET', `/users/${adaId}/invitations`, { token })).status, 404);
  assert.equal((await call('POST', `/users/${bobId}/invitations/${id}/accept`, { token: platform })).status, 404);
  assert.equal(await roleOf(bobId), undefined);
});

test('mails of invitations are limited per address and inviter, and per owner', async () => {
  const guest = newAddress();
  const send = async (email: string) => (await inviteAsOwner({ email })).response;
  const statuses: number[] = [];
  for (let i = 0; i < 4; i += 1) statuses.push((await send(guest)).status);
  assert.deepEqual(statuses, [201, 201, 201, 429]);
  assert.equal((await invite({ email: guest })).made.status, 201, 'the platform has mails of its own');
  for (let i = 0; i < 17; i += 1) assert.equal((await send(newAddress())).status, 201);
  const refused = await send(newAddress());
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '180']);
  assert.equal((await inviteAsOwner()).response.status, 201, 'a link without a mail is not limited');
  for (let i = 0; i < 20; i += 1) await mails.next();
});

test('the mails of all people to one address have a limit together, and those of the platform are not among them', async () => {
  const guest = newAddress();
  const throttle = createThrottle({ sql: homeOf(sql) });
  const bucket = { limit: 'mails of others to mailbox', subject: guest } as const;
  let mailed = 0;
  while ((await throttle.take([bucket], people.now())).allowed) mailed += 1;
  assert.equal(mailed, 30);
  assert.equal((await inviteAsOwner({ email: guest })).response.status, 429);
  const { path } = await inviteAsOwner();
  assert.equal((await createBrowser(people.origin).post(path, { email: guest })).status, 429);
  assert.equal((await invite({ email: guest })).made.status, 201);
});

test('invalid invitations are rejected', async () => {
  for (const [body, faults] of [
    [{ role: 'king', email: 'x' }, ['email invalid_value', 'role invalid_value']],
    [{ role: 'member', email: 'x' }, ['email invalid_value']],
    [{ role: 'member', expires: 1 }, ['expires unknown_property']],
  ] as const) {
    const refused = await call('POST', INVITATIONS, { token: platform, body });
    assert.deepEqual([refused.status, faultsOf(refused)], [400, faults]);
  }
  const open = await call('POST', INVITATIONS, { token: platform, body: {} });
  assert.deepEqual([open.status, open.body['role']], [201, 'member'], 'without a role');
  const member = await call('POST', INVITATIONS, { token: platform, body: { role: 'owner', email: ada } });
  assert.deepEqual([member.status, faultsOf(member)], [409, ['email already_member']]);
});

test('a store has at most 100 pending invitations, and the limit of members holds', async () => {
  await sql`
    insert into invitation (shard, id, store_id, hash, role, date_created, date_expires)
    select ${alpha % 256}, n * 256 + ${alpha % 256}, ${alpha}, sha256(n::text::bytea), 'member', ${people.now()},
      ${new Date(people.now().getTime() + HOUR_MS)} from generate_series(1000000, 1000098) n`;
  const { path } = await invite();
  const refused = await call('POST', INVITATIONS, { token: platform, body: { role: 'member' } });
  assert.deepEqual([refused.status, faultsOf(refused).at(0)?.includes('limit_reached')], [409, true]);
  await sql`
    insert into users (id, email, password_hash, date_created)
    select n, 'many' || n || '@example.com', 'x', ${people.now()} from generate_series(9000000, 9000098) n`;
  await sql`
    insert into membership (shard, store_id, user_id, role, date_created)
    select ${alpha % 256}, ${alpha}, n, 'member', ${people.now()} from generate_series(9000000, 9000098) n`;
  const users = (await sql`select from users`).length;
  assert.equal((await joinAs(path, newAddress())).status, 409);
  assert.equal((await sql`select from users`).length, users, 'no account is left');
  await sql`delete from users where id between 9000000 and 9000098`;
  assert.equal((await joinAs(path, newAddress())).status, 303);
});

test('the erasure of a store or a user ends invitations', async () => {
  const guest = newAddress();
  await joinAs((await invite({}, foreign)).path, guest);
  const user = await userOf(guest);
  await invite({ email: guest });
  assert.equal((await call('DELETE', `/users/${user?.id}`, { token: platform })).status, 204);
  assert.equal((await call('GET', INVITATIONS, { token: platform })).body['total_items'], '0');
  const body = { name: 'Short', domain: 'short.example.com', email: 'a@example.com', time_zone: 'UTC' };
  const { body: store } = await call('POST', '/stores', { token: platform, body });
  const { path } = await invite({}, Number(store['id']));
  assert.equal((await call('DELETE', `/stores/${String(store['id'])}`, { token: platform })).status, 204);
  assert.equal((await joinAs(path, newAddress())).status, 410);
  assert.equal((await sql`select from invitation`).length, 0);
});

test('the changelog has who invited, accepted and revoked, and no address', async () => {
  const guest = newAddress();
  const { path } = await inviteAsOwner({ email: guest });
  await mails.next();
  await joinAs(path, guest);
  const revoked = await invite();
  await call('DELETE', `${INVITATIONS}/${revoked.id}`, { token: platform });
  const { body } = await call('GET', `/stores/${alpha}/changelogs?limit=5`, { token: platform });
  assert.doesNotMatch(JSON.stringify(body), new RegExp(guest));
  const entries = itemsOf({ body } as never, 'changelogs').toReversed();
  const user = await userOf(guest);
  assert.deepEqual(
    entries.map(({ resource, action, actor, user: by }) => [resource, action, actor, by]),
    [
      ['invitation', 'created', 'user', adaId],
      ['invitation', 'accepted', 'user', user?.id],
      ['member', 'created', 'user', user?.id],
      ['invitation', 'created', 'platform', null],
      ['invitation', 'deleted', 'platform', null],
    ],
  );
});
