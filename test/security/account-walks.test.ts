/** Whatever others do to an account, its person signs in, leaves stores, erases the account, and is a member only where they accepted. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from 'fast-check';
import { updateDisabled } from '#identity/accounts/accounts-sql.ts';
import { createUser } from '#identity/accounts/users.ts';
import { addMember, createStore } from '#stores/store.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';
import { passwords } from '../setup/passwords.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, PASSWORD, type Browser } from './oauth-server.ts';
import { hiddenIn, submit } from './page-forms.ts';

const DAY_MS = 86_400_000;
const HTML = { Accept: 'text/html' };
const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const people = await startWithPeople({ SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com', SIGN_UP: 'on' });
const { sql, call, now } = people;
const newBrowser = () => createBrowser(people.origin);

type Account = { id: number; email: string; browser: Browser };
let count = 0;
async function newAccount(name: string): Promise<Account> {
  const email = `${name}${(count += 1)}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: now() });
  const browser = newBrowser();
  assert.equal((await browser.signIn(email)).status, 303);
  return { id, email, browser };
}

/** The person, an attacker with two stores of their own (one is a sandbox), and the stores that the person has agreed to. */
type World = { person: Account; eve: Account; stores: readonly number[]; agreed: Set<number> };

async function newWorld(): Promise<World> {
  people.wait(DAY_MS);
  const [person, eve] = [await newAccount('person'), await newAccount('eve')];
  await submit(eve.browser, '/account/clients', '/account/sandbox-store');
  const [sandbox] = await sql<{ id: number }[]>`select id from store where sandbox_of = ${eve.id}`;
  const details = { name: 'Shop', domain: 'shop.example.com', email: 'shop@example.com', timeZone: 'UTC', now: now() };
  const { id } = await createStore(sql, details);
  await addMember(sql, { storeId: id, userId: eve.id, role: 'owner', now: now() });
  return { person, eve, stores: [id, Number(sandbox?.id)], agreed: new Set() };
}

/** Sends the form for a method of the page at `path`, as far as the page has one. */
async function send({ browser }: Account, path: string, method: string, fields: Record<string, string> = {}) {
  const { text } = await browser.open(path, HTML);
  const forms = [...text.matchAll(/<form method="post"[^>]*>([^]*?)<\/form>/g)].map(([, inside = '']) => inside);
  const form = forms.find((inside) => inside.includes(`name="_method" value="${method}"`) && inside.includes('nonce'));
  const hidden = [...(form ?? '').matchAll(/name="([^"]*)" value="([^"]*)"/g)].map(([, name = '', value = '']) => [
    name,
    value,
  ]);
  return browser.post(path, { ...(Object.fromEntries(hidden) as Record<string, string>), ...fields }, HTML);
}
const memberOf = async ({ id }: Account) =>
  (await sql<{ id: number }[]>`select store_id as id from membership where user_id = ${id} order by store_id`).map(
    (row) => row.id,
  );
const platformToken = async () =>
  String(
    (await people.token({ grant_type: 'client_credentials', scope: 'platform', ...people.platform })).body[
      'access_token'
    ],
  );
const onEach = async (stores: readonly number[], step: (store: number) => Promise<unknown>): Promise<void> => {
  for (const store of stores) await step(store);
};

/** What others do, and what the person does (accept and decline). */
const steps: Readonly<Record<string, (world: World) => Promise<void>>> = {
  'others invite the person': ({ person, eve, stores }) =>
    onEach(stores, async (store) => {
      const path = `/stores/${store}/invitations`;
      const page = await eve.browser.open(`/stores/${store}/members`, HTML);
      if (!page.text.includes(`action="${path}"`)) return;
      await eve.browser.post(path, { ...hiddenIn(page, path), email: person.email, role: 'owner' }, HTML);
    }),
  'the person accepts': async ({ person, agreed }) => {
    const list = `/users/${person.id}/invitations`;
    const { text } = await person.browser.open(list, HTML);
    for (const [, at = ''] of text.matchAll(new RegExp(`href="(${list}/\\d+)"`, 'g'))) {
      const page = await person.browser.open(at, HTML);
      if (page.status !== 200) continue;
      const joined = await person.browser.post(`${at}/accept`, hiddenIn(page, `${at}/accept`), HTML);
      const store = /\/stores\/(\d+)\//.exec(joined.location ?? '')?.[1];
      if (store !== undefined) agreed.add(Number(store));
    }
  },
  'others make the person an owner': ({ person, eve, stores }) =>
    onEach(stores, (store) => send(eve, `/stores/${store}/members/${person.id}`, 'PATCH', { role: 'owner' })),
  'others add the person by a form': ({ person, eve, stores }) =>
    onEach(stores, (store) =>
      send(eve, `/stores/${store}/members`, 'POST', { user: String(person.id), role: 'owner' }),
    ),
  'others leave': ({ eve, stores }) =>
    onEach(stores, (store) => send(eve, `/stores/${store}/members/${eve.id}`, 'DELETE')),
  'others require a second factor': async ({ eve, stores }) => {
    await sql`insert into authenticator_app values (${eve.id}, ${Buffer.alloc(64)}, 0, '2020-01-01') on conflict do nothing`;
    await onEach(stores, (store) => send(eve, `/stores/${store}`, 'PATCH', { second_factor: 'required' }));
  },
  'strangers guess the password': async ({ person }) => {
    for (let i = 0; i < 12; i += 1) await newBrowser().signIn(person.email, 'a wrong password');
  },
  'strangers ask for a new password': async ({ person }) => {
    for (let i = 0; i < 8; i += 1) await newBrowser().post('/forgot-password', { email: person.email });
  },
  'strangers sign up with the address': async ({ person }) => {
    for (let i = 0; i < 8; i += 1) await newBrowser().post('/sign-up', { email: person.email.toUpperCase() });
  },
  'the platform creates the account again': async ({ person }) => {
    const body = { email: person.email, password: 'another password' };
    assert.equal((await call('POST', '/users', { token: await platformToken(), body })).status, 409);
  },
  'the operator suspends and enables': async ({ person }) => {
    await updateDisabled(sql, person.id, now());
    assert.equal((await newBrowser().signIn(person.email)).status === 303, false);
    await updateDisabled(sql, person.id, null);
  },
};

/** The person signs in again, leaves the stores, and erases the account; returns what stopped it. */
async function leaveAll({ person }: World): Promise<string> {
  assert.equal((await person.browser.signIn(person.email)).status, 303, 'signs in, where they have signed in before');
  assert.equal((await person.browser.open('/account')).status, 200);
  for (const store of await memberOf(person)) {
    const left = await send(person, `/stores/${store}/members/${person.id}`, 'DELETE');
    assert.ok(left.status === 409 || left.location === '/stores?done=left', `${left.status} ${left.location}`);
  }
  const page = await person.browser.open('/account/erase');
  assert.equal(page.status, 200);
  if (!page.text.includes('name="current"')) return page.text;
  const erased = await submit(person.browser, '/account/erase', '/account/erase', { current: PASSWORD });
  assert.equal(erased.status, 200, erased.text);
  return '';
}

test('whatever others do to an account, its person signs in, leaves, and erases it', async () => {
  const names = Object.keys(steps);
  const walk = fc.array(fc.constantFrom(...names), { minLength: 4, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(walk, async (path) => {
      const world = await newWorld();
      for (const step of path) {
        await steps[step]?.(world);
        for (const store of await memberOf(world.person))
          assert.ok(world.agreed.has(store), `${step}: a member of ${store}`);
      }
      const [shop = 0, sandbox = 0] = world.stores;
      const stopped = await leaveAll(world);
      if (stopped === '') return;
      // Only as the only owner of a store that is no sandbox, and the page says what to do.
      assert.deepEqual(await memberOf(world.person), [shop]);
      assert.ok(!stopped.includes(`/stores/${sandbox}/`));
      assert.match(stopped, /make <a [^>]*>another member<\/a> an owner|ask\s+the operator of this service/);
    }),
    {
      numRuns: 8,
      examples: [
        [['others invite the person', 'the person accepts', 'others leave', 'strangers guess the password']],
        [['others invite the person', 'the person accepts', 'others require a second factor', 'others leave']],
        [names],
      ],
    },
  );
});
