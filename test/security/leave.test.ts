/** The export and the erasure of an account by its person. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createUser } from '#identity/accounts/users.ts';
import { addMember, createStore } from '#stores/store.ts';
import { createBrowser, PASSWORD, startAuthorizationServer, type Browser, type Page } from './oauth-server.ts';
import { hiddenIn, newApp, submit } from './page-forms.ts';
import { amountOf } from '../setup/amount.ts';
import { passwords } from '../setup/passwords.ts';
import { anyText } from '../setup/any-text.ts';

const server = await startAuthorizationServer();
const { sql } = server;
const second = await server.startSecond();
const newBrowser = (origin = server.origin) => createBrowser(origin);

let people = 0;
async function newPerson(origin = server.origin) {
  people += 1;
  const email = `person${people}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  const browser = newBrowser(origin);
  await browser.signIn(email);
  return { id, email, browser };
}

let stores = 0;
async function newStore(...owners: readonly number[]) {
  stores += 1;
  const shop = { domain: `s${stores}.example.com`, email: 'shop@example.com', timeZone: 'UTC', now: server.now() };
  const { id } = await createStore(sql, { name: `Shop ${stores}`, ...shop });
  for (const userId of owners) await addMember(sql, { storeId: id, userId, role: 'owner', now: server.now() });
  return { id, name: `Shop ${stores}` };
}

const download = (browser: Browser) => submit(browser, '/account', '/account/export');
const erase = (browser: Browser, current = PASSWORD) =>
  submit(browser, '/account/erase', '/account/erase', { current });
const exists = async (id: number) => (await sql`select from users where id = ${id}`).length > 0;

test('the export is a file with the person, memberships, grants, sessions and activity', async () => {
  const { id, email, browser } = await newPerson();
  const shop = await newStore(id);
  await addMember(sql, { storeId: server.beta, userId: id, role: 'member', now: server.now() });
  await browser.consent(server.asking());
  const app = await newApp(browser);
  await sql`
    insert into passkey (id, user_id, credential_id, public_key, sign_count, transports, name, date_created)
    values (1, ${id}, 'a', 'b', 0, '{}', 'Laptop', ${server.now()})`;
  const later = new Date(server.now().getTime() + 3_600_000);
  await sql`
    insert into email_change (hash, undo_hash, user_id, old_email, new_email, date_created, date_expires, date_undo_expires)
    values (sha256('a'), sha256('b'), ${id}, ${email}, 'other@example.com', ${server.now()}, ${later}, ${later})`;
  const page = await download(browser);
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('content-type'), 'application/json; charset=utf-8');
  assert.match(page.headers.get('content-disposition') ?? '', /^attachment; filename="/);
  const data = JSON.parse(page.text) as Record<string, Record<string, unknown>[]> & { person: object };
  assert.deepEqual(data.person, { id, email, is_email_verified: true, date_created: server.now().toISOString() });
  assert.deepEqual(
    data['memberships']?.map(({ store_id, role }) => [store_id, role]),
    [
      [server.beta, 'member'],
      [shop.id, 'owner'],
    ],
  );
  assert.deepEqual(
    data['grants']?.map(({ name }) => name),
    ['Mailer'],
  );
  assert.equal(data['sessions']?.length, 1);
  assert.deepEqual(
    data['audit']?.map(({ action }) => action),
    ['client_created', 'grant_given', 'signed_in', 'user_created'],
  );
  const own = (name: string, member: string) => data[name]?.map((one) => one[member]);
  assert.deepEqual(
    [own('own_apps', 'client_id'), own('passkeys', 'name'), own('address_changes', 'new_email')],
    [[app.clientId], ['Laptop'], ['other@example.com']],
  );
  const entries = await sql`select from audit where user_id = ${id} and action = 'account_exported'`;
  assert.equal(entries.length, 1);
});

test('the export has no secret, no hash of one, and nothing of another person', async () => {
  const [one, two] = [await newPerson(), await newPerson()];
  await newStore(one.id, two.id);
  await one.browser.consent(server.asking());
  const { text } = await download(one.browser);
  const secrets = await sql<{ secret: string }[]>`
    select password_hash as secret from users where id = ${one.id}
    union all select encode(hash, 'hex') from session where user_id = ${one.id}
    union all select encode(hash, 'base64') from session where user_id = ${one.id}`;
  for (const { secret } of secrets) assert.ok(!text.includes(secret), secret);
  assert.ok(!text.includes(one.browser.jar.get('halcyon') ?? 'halcyon'));
  assert.doesNotMatch(text, /hal_|argon2/);
  assert.ok(!text.includes(two.email));
});

test('the export needs a form of this session', async () => {
  const [one, two] = [await newPerson(), await newPerson()];
  const foreign = hiddenIn(await two.browser.open('/account'), '/account/export');
  for (const form of [{}, foreign]) assert.equal((await one.browser.post('/account/export', form)).status, 403);
  assert.equal((await newBrowser().post('/account/export', foreign)).status, 303);
});

test('an erased account is gone with its sessions, grants and apps, and its activity stays without name', async () => {
  const { id, email, browser } = await newPerson();
  const shop = await newStore(id, server.adaId);
  const { clientId } = await newApp(browser);
  await browser.consent(server.asking());
  const elsewhere = newBrowser(second);
  await elsewhere.signIn(email);
  const page = await erase(browser);
  assert.equal(page.status, 200);
  assert.equal(browser.jar.has('halcyon'), false);
  for (const each of [browser, elsewhere]) assert.equal((await each.open('/account')).status, 303);
  assert.equal((await newBrowser().signIn(email)).status, 422);
  const [left] = await sql`
    select (select count(*)::int from users where id = ${id}) as users,
      (select count(*)::int from access_grant where user_id = ${id}) as grants,
      (select count(*)::int from session where user_id = ${id}) as sessions,
      (select count(*)::int from client where client_id = ${clientId} and date_deleted is null) as apps,
      (select count(*)::int from membership where store_id = ${shop.id}) as owners`;
  assert.deepEqual({ ...left }, { users: 0, grants: 0, sessions: 0, apps: 0, owners: 1 });
  const entries = await sql<{ action: string; all: string }[]>`
    select action, to_jsonb(audit)::text as all from audit where user_id = ${id} order by audit.id desc`;
  assert.equal(entries[0]?.action, 'user_erased');
  for (const entry of entries) assert.ok(!entry.all.includes(email));
});

test('a wrong password erases nothing', async () => {
  const { id, browser } = await newPerson();
  const page = await erase(browser, 'wrong password');
  assert.equal(page.status, 422);
  assert.match(page.text, /id="current"[^>]*aria-invalid="true"/);
  assert.equal(await exists(id), true);
});

test('the only owner of a store is refused, and the page names the store', async () => {
  const { id, browser } = await newPerson();
  const [own, shared] = [await newStore(id), await newStore(id, server.bobId)];
  const nonce = hiddenIn(await browser.open('/account'), '/account/export');
  const { text } = await browser.open('/account/erase');
  assert.ok(text.includes(own.name) && !text.includes(shared.name), text);
  assert.doesNotMatch(text, /<form method="post" action="\/account\/erase"/);
  await addMember(sql, { storeId: own.id, userId: server.bobId, role: 'owner', now: server.now() });
  const form = hiddenIn(await browser.open('/account/erase'), '/account/erase');
  await sql`delete from membership where store_id = ${own.id} and user_id = ${server.bobId}`;
  const refused = await browser.post('/account/erase', { ...form, current: PASSWORD });
  assert.equal(refused.status, 409);
  assert.ok(refused.text.includes(own.name));
  assert.equal((await browser.post('/account/erase', { ...nonce, current: PASSWORD })).status, 403);
  assert.equal(await exists(id), true);
});

test('of the last two owners of a store, in two processes, one cannot leave', async () => {
  for (let round = 0; round < 8; round += 1) {
    const [one, two] = [await newPerson(), await newPerson(second)];
    await newStore(one.id, two.id);
    await newStore(two.id, one.id);
    // Both have the form before one of them is the only owner.
    const forms: (() => Promise<Page>)[] = [];
    for (const { browser } of [one, two]) {
      const form = hiddenIn(await browser.open('/account/erase'), '/account/erase');
      forms.push(() => browser.post('/account/erase', { ...form, current: PASSWORD }));
    }
    const statuses = (await Promise.all(forms.map((send) => send()))).map(({ status }) => status);
    assert.deepEqual(
      statuses.toSorted((a, b) => a - b),
      [200, 409],
    );
  }
});

test('an erasure that is requested twice at once happens once, without an error', async () => {
  const { id, browser } = await newPerson();
  const form = { ...hiddenIn(await browser.open('/account/erase'), '/account/erase'), current: PASSWORD };
  const both = await Promise.all([browser, browser].map((each) => each.post('/account/erase', form)));
  const statuses = both.map(({ status }) => status);
  assert.ok(
    statuses.includes(200) && statuses.every((status) => [200, 303, 404, 422].includes(status)),
    statuses.join(' '),
  );
  assert.equal(await exists(id), false);
});

test('for any fields, the forms answer without an internal error and erase nothing', async () => {
  const { id, browser } = await newPerson();
  const text = anyText({ maxLength: 60 }).map((value) => value.toWellFormed());
  const fields = fc.dictionary(fc.constantFrom('nonce', 'current', 'x'), text);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('/account/export', '/account/erase'), fields, async (path, given) => {
      const { status } = await browser.post(path, given);
      assert.ok([403, 400].includes(status), `${path} ${status}`);
    }),
    { numRuns: amountOf('any-form', { all: 100, part: 30 }) },
  );
  assert.equal(await exists(id), true);
});
