/** What the platform changes of users, by POST with a known external_id and by PATCH: never who can sign in, unless the operator trusts it. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from 'fast-check';
import { updateDisabled } from '#identity/accounts/accounts-sql.ts';
import { amountOf } from '../setup/amount.ts';
import { faultsOf } from '../setup/caller.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, ISSUER, PASSWORD, type Browser } from './oauth-server.ts';
import { submit } from './page-forms.ts';
import { SEED } from '../setup/seed.ts';

const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const SENDS = { SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com' };
const asking = await startWithPeople(SENDS);
const trusting = await startWithPeople({ ...SENDS, PLATFORM_EMAILS_VERIFIED: '1' });
type Server = typeof asking;
const HOUR_MS = 3_600_000;
const RUNS = amountOf('platform-changes', { all: 12, part: 4 });
const NEW = 'a battery, stapled';

let count = 0;
const newEmail = (): string => `user${(count += 1)}@example.com`;
const newKey = (): string => `key ${(count += 1)}`;

const post = (server: Server, body: object, token = server.platformToken) =>
  server.call('POST', '/users', { token, body });
const patch = (server: Server, id: unknown, body: object, headers: Record<string, string> = {}) =>
  server.call('PATCH', `/users/${String(id)}`, { token: server.platformToken, body, headers });

/** Creates a user with an external_id and a password, who has signed in. */
async function newUser(server: Server) {
  const [email, key] = [newEmail(), newKey()];
  const { status, body } = await post(server, { email, password: PASSWORD, external_id: key });
  assert.equal(status, 201);
  const browser = createBrowser(server.origin);
  assert.equal((await browser.signIn(email)).status, 303);
  return { id: Number(body['id']), email, key, browser };
}

const signsIn = async (server: Server, email: string, password = PASSWORD): Promise<boolean> =>
  (await createBrowser(server.origin).signIn(email, password)).status === 303;
const isSignedIn = async (browser: Browser): Promise<boolean> => (await browser.open('/account')).status === 200;
const linkIn = (text: string): string =>
  new RegExp(`${ISSUER}(/(?:account/email/|undo-email|reset-password)\\S+)$`, 'm').exec(text)?.[1] ?? '';
const mailsTo = async (...addresses: string[]) => {
  const read = [];
  while (read.length < addresses.length) read.push(await mails.next());
  assert.deepEqual(read.flatMap(({ to }) => to).toSorted(), addresses.toSorted());
  assert.equal(mails.unread().length, 0);
  return Object.fromEntries(read.map(({ to, text }) => [to[0], linkIn(text)]));
};
const choose = (server: Server, link: string) =>
  createBrowser(server.origin).post('/reset-password', {
    token: new URL(ISSUER + link).searchParams.get('token') ?? '',
    password: NEW,
  });
const actionsOf = async ({ sql }: Server, id: number) => {
  const rows = await sql<{ action: string; client: number | null }[]>`
    select action, client from audit where user_id = ${id} and action like 'email%' order by id`;
  return rows.map(({ action, client }) => [action, client !== null]);
};

test('a POST with a known external_id finds the user, and changes no password', async () => {
  const { id, email, key } = await newUser(asking);
  const again = await post(asking, { email: email.toUpperCase(), password: NEW, external_id: key });
  assert.deepEqual([again.status, again.body['id'], again.body['external_id']], [200, id, key]);
  assert.deepEqual([await signsIn(asking, email), await signsIn(asking, email, NEW)], [true, false]);
  assert.equal((await post(asking, { email, external_id: key })).status, 200);
  assert.equal(mails.unread().length, 0);
  assert.deepEqual(await actionsOf(asking, id), []);
});

test('another address of an account that is in use counts when its person has confirmed it', async () => {
  const { id, email, key, browser } = await newUser(asking);
  const next = newEmail();
  const asked = await post(asking, { email: next, external_id: key });
  assert.deepEqual([asked.status, asked.body['email'], asked.body['is_email_verified']], [200, email, true]);
  const links = await mailsTo(email, next);
  assert.deepEqual((await patch(asking, id, { email: next })).body, asked.body);
  assert.equal(mails.unread().length, 0);
  const confirm = links[next] ?? '';
  // The reader of the new mailbox, who may be a stranger, gets nothing by the link alone.
  const stranger = createBrowser(asking.origin);
  await stranger.signIn(asking.ada);
  assert.equal((await stranger.open(confirm)).status, 410);
  assert.equal((await createBrowser(asking.origin).open(confirm)).status, 303);
  assert.ok(await signsIn(asking, email));
  assert.equal((await submit(browser, confirm, '/account/email/confirm')).status, 303);
  const { body } = await patch(asking, id, {});
  assert.deepEqual([body['email'], body['is_email_verified']], [next, true]);
  assert.deepEqual(await actionsOf(asking, id), [
    ['email_change_requested', true],
    ['email_changed', false],
  ]);
});

test('the former address stops a change that the platform requests, which is mailed again after a day at the earliest', async () => {
  const { id, email, key } = await newUser(asking);
  const next = newEmail();
  await post(asking, { email: next, external_id: key });
  const links = await mailsTo(email, next);
  asking.wait(25 * HOUR_MS);
  const token = await asking.platformTokenOf('Of another day');
  assert.equal((await asking.call('PATCH', `/users/${id}`, { token, body: { email: next } })).status, 200);
  await mailsTo(email, next);
  asking.wait(-25 * HOUR_MS);
  assert.equal((await createBrowser(asking.origin).open(links[email] ?? '')).status, 410);
});

test('the address of an account that no person can sign in to yet is replaced, and the link to the former one ends', async () => {
  const [email, next, key] = [newEmail(), newEmail(), newKey()];
  const made = await post(asking, { email, external_id: key });
  const former = (await mailsTo(email))[email] ?? '';
  const changed = await post(asking, { email: next, external_id: key });
  assert.deepEqual([changed.status, changed.body['id'], changed.body['email']], [200, made.body['id'], next]);
  const link = (await mailsTo(next))[next] ?? '';
  assert.equal((await choose(asking, former)).status, 410);
  assert.equal((await choose(asking, link)).status, 303);
  assert.ok(await signsIn(asking, next, NEW));
  // Now a person uses it.
  const { body } = await post(asking, { email: newEmail(), external_id: key });
  assert.equal(body['email'], next);
  await mails.next();
  await mails.next();
});

test('a platform that the operator trusts replaces the address at once; sessions and links of the former one end', async () => {
  const { id, email, key, browser } = await newUser(trusting);
  const next = newEmail();
  await createBrowser(trusting.origin).post('/forgot-password', { email });
  const reset = (await mailsTo(email))[email] ?? '';
  const changed = await post(trusting, { email: next, external_id: key });
  assert.deepEqual(
    [changed.status, changed.body['id'], changed.body['email'], changed.body['is_email_verified']],
    [200, id, next, true],
  );
  const undo = (await mailsTo(email))[email] ?? '';
  assert.match(undo, /undo-email/);
  assert.equal(await isSignedIn(browser), false);
  assert.deepEqual([await signsIn(trusting, email), await signsIn(trusting, next)], [false, true]);
  assert.equal((await choose(trusting, reset)).status, 410);
  const reserved = await post(trusting, { email, password: PASSWORD });
  assert.deepEqual([reserved.status, faultsOf(reserved)], [409, ['email email_taken']]);
  assert.equal((await submit(createBrowser(trusting.origin), undo, '/undo-email')).status, 200);
  assert.deepEqual([await signsIn(trusting, email), await signsIn(trusting, next)], [true, false]);
  assert.deepEqual(await actionsOf(trusting, id), [
    ['email_changed', true],
    ['email_change_undone', false],
  ]);
});

test('an address that the platform corrects gets no link that takes the account', async () => {
  const { id, email } = await newUser(trusting);
  const [wrong, right] = [newEmail(), newEmail()];
  assert.equal((await patch(trusting, id, { email: wrong })).status, 200);
  const undo = (await mailsTo(email))[email] ?? '';
  assert.equal((await patch(trusting, id, { email: right })).status, 200);
  // The next mail is this one, so none was sent to the wrong address.
  await createBrowser(trusting.origin).post('/forgot-password', { email: right });
  await mailsTo(right);
  assert.equal((await submit(createBrowser(trusting.origin), undo, '/undo-email')).status, 200);
  assert.equal(await signsIn(trusting, email), true);
});

test('of two users who exchange their keys at the same time none ends in an error of the server', async () => {
  const [one, two] = [await newUser(asking), await newUser(asking)];
  for (let round = 0; round < 10; round += 1) {
    const answers = await Promise.all([
      patch(asking, one.id, { external_id: two.key }),
      patch(asking, two.id, { external_id: one.key }),
    ]);
    assert.ok(
      answers.every(({ status }) => status === 200 || status === 409),
      answers.map(({ status }) => status).join(),
    );
  }
});

for (const server of [asking, trusting]) {
  const which = server === asking ? 'that asks' : 'that trusts the platform';

  test(`an address of another account is refused, and nothing is changed, on a server ${which}`, async () => {
    const [one, two] = [await newUser(server), await newUser(server)];
    for (const refused of [
      await patch(server, one.id, { email: two.email.toUpperCase(), external_id: newKey() }),
      await post(server, { email: two.email, external_id: one.key }),
      await post(server, { email: two.email, password: PASSWORD, external_id: newKey() }),
    ])
      assert.deepEqual([refused.status, faultsOf(refused)], [409, ['email email_taken']]);
    assert.deepEqual((await patch(server, one.id, {})).body['external_id'], one.key);
    assert.ok((await isSignedIn(one.browser)) && (await isSignedIn(two.browser)));
    assert.equal(mails.unread().length, 0);
  });

  test(`an address that was not verified is replaced by one that is neither, on a server ${which}`, async () => {
    const { id, email } = await newUser(server);
    await server.sql`update users set is_email_verified = false where id = ${id}`;
    const next = newEmail();
    const { body } = await patch(server, id, { email: next });
    assert.deepEqual([body['email'], body['is_email_verified']], [next, false]);
    // Neither a link that confirms the address, nor one by which the reader of the former one takes it back.
    assert.equal((await server.sql`select from email_change where user_id = ${id}`).length, 0);
    assert.deepEqual([await signsIn(server, email), await signsIn(server, next)], [false, true]);
  });
}

test('without mail an address that the person would have to confirm is refused', async () => {
  const mute = await startWithPeople();
  const { id, email } = await newUser(mute);
  const refused = await patch(mute, id, { email: newEmail() });
  assert.deepEqual([refused.status, faultsOf(refused)], [409, ['email email_not_confirmed']]);
  assert.ok(await signsIn(mute, email));
});

test('of concurrent POSTs with one new external_id one creates the user', async () => {
  const [email, key] = [newEmail(), newKey()];
  const body = { email, password: PASSWORD, external_id: key };
  const answers = await Promise.all(Array.from({ length: 6 }, () => post(asking, body)));
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 200, 200, 200, 201],
  );
  assert.equal(new Set(answers.map(({ body: { id } }) => id)).size, 1);
});

test('an external_id of a user belongs to the client that gave it, and is free once the user is erased', async () => {
  const { id, email, key } = await newUser(asking);
  const other = await asking.platformTokenOf('Another');
  const found = async (token: string) =>
    (await asking.call('GET', `/users?external_id=${encodeURIComponent(key)}`, { token })).body['total_items'];
  assert.deepEqual([await found(asking.platformToken), await found(other)], ['1', '0']);
  const at = `/users/${id}`;
  const read = await asking.call('GET', at, { token: other });
  assert.equal(read.body['external_id'], null);
  const theirs = await asking.call('PATCH', at, { token: other, body: { external_id: key } });
  assert.equal(theirs.body['external_id'], key);
  const stale = { 'If-Match': String(read.headers.get('etag')) };
  assert.equal((await patch(asking, id, { external_id: null }, stale)).status, 412);
  const second = await newUser(asking);
  const taken = await patch(asking, second.id, { external_id: key });
  assert.deepEqual([taken.status, faultsOf(taken)], [409, ['external_id external_id_taken']]);
  assert.equal((await asking.call('DELETE', at, { token: other })).status, 204);
  assert.equal((await asking.sql`select from external_key where key = ${key}`).length, 0);
  const again = await post(asking, { email, password: PASSWORD, external_id: key });
  assert.deepEqual([again.status, again.body['id'] === id], [201, false]);
});

test('a PUT removes an external_id that it does not name, and needs the address', async () => {
  const { id, email, key } = await newUser(asking);
  const put = (body: object) => asking.call('PUT', `/users/${id}`, { token: asking.platformToken, body });
  assert.deepEqual(faultsOf(await put({ external_id: key })), ['email required']);
  assert.equal((await put({ email, external_id: key })).body['external_id'], key);
  const { body } = await put({ email });
  assert.deepEqual([body['email'], body['external_id']], [email, null]);
});

test('only the platform changes a user', async () => {
  for (const token of [asking.store, asking.account]) {
    const refused = await asking.call('PATCH', `/users/${asking.adaId}`, { token, body: { external_id: 'x' } });
    assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope']);
  }
  assert.equal((await patch(asking, 999_999_999, { external_id: 'x' })).status, 404);
  const wrong = await patch(asking, asking.adaId, { email: 'x', password: NEW });
  assert.deepEqual([wrong.status, faultsOf(wrong)], [400, ['email invalid_value', 'password unknown_property']]);
});

/** Two platforms, three addresses and three keys each, and users whom the operator disables in between. */
const step = fc.record({
  who: fc.constantFrom(0, 1),
  what: fc.constantFrom('post', 'patch', 'patch while disabled'),
  key: fc.constantFrom('a', 'b', 'c', null),
  address: fc.nat(3),
  target: fc.nat(3),
});

for (const [server, which] of [
  [asking, 'that asks'],
  [trusting, 'that trusts the platform'],
] as const) {
  test(`whatever two platforms send, addresses and keys stay unique and no person loses the account, on a server ${which}`, async () => {
    const tokens = [server.platformToken, await server.platformTokenOf('Second')];
    const { sql } = server;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 10 }), async (path) => {
        const person = await newUser(server);
        const addresses = [person.email, newEmail(), newEmail(), newEmail()];
        const prefix = newKey();
        const ids: number[] = [person.id];
        for (const { who, what, key, address, target } of path) {
          const token = tokens[who] ?? '';
          const id = ids[target % ids.length] ?? person.id;
          const externalId = key === null ? null : `${prefix} ${key}`;
          const email = addresses[address] ?? '';
          if (what === 'patch while disabled') await updateDisabled(sql, id, server.now());
          const body = { email, external_id: externalId };
          const answer =
            what === 'post'
              ? await server.call('POST', '/users', { token, body: { ...body, password: PASSWORD } })
              : await server.call('PATCH', `/users/${id}`, { token, body });
          await updateDisabled(sql, id, null);
          assert.ok([200, 201, 409].includes(answer.status), JSON.stringify(answer.body));
          if (answer.status === 201) ids.push(Number(answer.body['id']));
          if (answer.status !== 409) assert.equal(answer.body['external_id'], externalId);
        }
        const users = await sql<{ id: number; email: string; verified: boolean }[]>`
          select id, email, is_email_verified as verified from users where id = any(${ids}::bigint[])`;
        assert.deepEqual(new Set(users.map(({ id }) => id)), new Set(ids));
        assert.equal(new Set(users.map(({ email }) => email)).size, ids.length);
        assert.ok(users.every(({ verified }) => verified));
        const current = users.find(({ id }) => id === person.id)?.email ?? '';
        if (server === asking) assert.equal(current, person.email);
        // The password is that of the person, under the address that the account has now.
        assert.ok(await signsIn(server, current));
        while (mails.unread().length > 0) await mails.next();
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}
