/** A person whom an operator has suspended: no session, proof or grant of theirs works until the suspension ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { transaction } from '#db/pool.ts';
import { createLinks } from '#identity/accounts/password-change.ts';
import { createUser } from '#identity/accounts/users.ts';
import { readConfig } from '../../src/config/config.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startWithOwners, type Owner } from '../setup/owners.ts';
import { passwords } from '../setup/passwords.ts';
import { homeOf, storesOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import { createBrowser, PASSWORD, type Browser } from './oauth-server.ts';
import { enrol, makeOperator, openConsole, suspending } from './operators.ts';
import { hiddenIn } from './page-forms.ts';

const owners = await startWithOwners();
const { call, sql, origin, token, asking, newOwner, newApp, letIn, consent, bobId } = owners;
const { operator, factor, post, suspend, resume } = await suspending(owners);
const REASON = 'Shared the password';
const pathOf = ({ userId }: Pick<Owner, 'userId'>): string => `/operator/people/${userId}`;
const isSignedIn = async (browser: Browser): Promise<boolean> => (await browser.open('/account')).status === 200;
const isSuspended = async (userId: number): Promise<boolean> =>
  (await homeOf(sql)`select from users where id = ${userId} and date_disabled is not null`).length === 1;

test('a suspension ends the sessions for good, and only a proof of who the person is says why', async () => {
  const person = await newOwner();
  await suspend(pathOf(person), REASON);
  assert.equal(await isSignedIn(person.browser), false);
  const browser = createBrowser(origin);
  const refused = await browser.signIn(person.email);
  assert.deepEqual([refused.status, refused.text.includes(REASON), await isSignedIn(browser)], [422, true, false]);
  const guessed = await browser.signIn(person.email, 'a wrong password');
  assert.deepEqual([guessed.status, guessed.text.includes(REASON)], [422, false]);
  const links = createLinks({ sql: homeOf(sql), config: readConfig({}, process.cwd()) });
  assert.equal(await links.issue(person.userId, { origin: null, now: owners.now() }), undefined);

  await resume(pathOf(person));
  assert.equal(await isSignedIn(person.browser), false, 'the former session has ended');
  await browser.signIn(person.email);
  assert.equal(await isSignedIn(browser), true);
  const entries = await homeOf(sql)<{ action: string; address: string | null; detail: unknown }[]>`
    select action, address, detail from audit where user_id = ${person.userId} and action like 'user_%abled' order by id`;
  const by = { operator: String(bobId) };
  assert.deepEqual(
    [...entries],
    [
      { action: 'user_disabled', address: null, detail: { ...by, reason: REASON } },
      { action: 'user_enabled', address: null, detail: by },
    ],
  );
});

test('a recovery code of a second step that began before the suspension is refused, and not used up', async () => {
  const person = await newOwner();
  await enrol(owners, person.browser);
  const codes = /<code>([0-9a-z-]{27})<\/code>/.exec((await submitRecovery(person.browser)).text)?.[1] ?? '';
  const second = async (browser: Browser) => {
    const page = await browser.signIn(person.email);
    return hiddenIn(page, '/sign-in/second-factor');
  };
  const browser = createBrowser(origin);
  const hidden = await second(browser);
  await suspend(pathOf(person), REASON);
  const refused = await browser.post('/sign-in/second-factor', { ...hidden, verification_code: codes });
  assert.deepEqual([refused.status, refused.text.includes(REASON)], [422, true]);
  const madeUp = createSealer(Buffer.alloc(32, 251)).seal(
    JSON.stringify({ until: 8.64e15, value: { id: person.userId } }),
    'pending sign-in',
  );
  for (const pending of [madeUp.toString('base64url'), `${person.userId}.9999999999.${'x'.repeat(43)}`]) {
    const stranger = await browser.post('/sign-in/second-factor', { ...hidden, pending, verification_code: codes });
    assert.deepEqual([stranger.status, stranger.text.includes(REASON)], [422, false]);
  }
  await resume(pathOf(person));
  const accepted = await browser.post('/sign-in/second-factor', {
    ...(await second(browser)),
    verification_code: codes,
  });
  assert.deepEqual([accepted.status, await isSignedIn(browser)], [303, true]);
});

async function submitRecovery(browser: Browser) {
  const at = '/account/security/recovery-codes';
  const page = await browser.open('/account/security');
  return browser.post(at, hiddenIn(page, at));
}

test('what the person gave to apps is refused, and valid again after the end; webhooks wait to be enabled', async () => {
  const [person, app] = [await newOwner(), await newApp()];
  const { access, refresh } = await letIn(person, app);
  const code = await consent(person, app);
  const body = {
    name: 'Parcels',
    format: 'json',
    encryption_key: 'a key of mine',
    url: 'https://app.example.com/hook',
  };
  const made = await call('POST', `/stores/${person.storeId}/webhooks`, {
    token: access,
    body: { ...body, event_resource: 'transaction' },
  });
  const reason = async () => {
    const [row] = await storesOf(sql)<{ reason: string | null }[]>`
      select inactive_reason as reason from webhook where id = ${Number(made.body['id'])}`;
    return row?.reason;
  };
  const use = async () => [
    (await call('GET', `/stores/${person.storeId}`, { token: access })).status,
    (await token({ grant_type: 'refresh_token', refresh_token: refresh, ...app.credentials })).status,
    (await owners.read(person.storeId, access)).status,
  ];
  assert.deepEqual([await use(), await reason()], [[200, 200, 200], null]);
  await suspend(pathOf(person), REASON);
  assert.deepEqual([await use(), await reason()], [[401, 400, 401], 'access_ended']);
  assert.equal((await owners.redeem(code, app.credentials)).body['error'], 'invalid_grant');
  const device = await person.browser.open('/device');
  assert.match(device.location ?? '', /^\/sign-in\?/);
  await resume(pathOf(person));
  assert.deepEqual([await use(), await reason()], [[200, 200, 200], 'access_ended']);
});

test('an operator cannot suspend the own account, and of two who suspend each other one remains', async () => {
  assert.equal((await post(pathOf({ userId: bobId }), { reason: REASON })).status, 409);
  assert.equal(await isSuspended(bobId), false);
  const email = 'second-operator@example.com';
  const { id } = await createUser(homeOf(sql), passwords, { email, password: PASSWORD, now: owners.now() });
  const other = createBrowser(origin);
  await other.signIn(email);
  await makeOperator(owners, id);
  const otherFactor = await enrol(owners, other);
  const [own, theirs] = [pathOf({ userId: id }), pathOf({ userId: bobId })];
  const mine = hiddenIn(await openConsole(operator, factor, own), own);
  const his = hiddenIn(await openConsole(other, otherFactor, theirs), theirs);
  const both = await transaction(homeOf(sql), async (tx) => {
    await tx`select from users where is_operator for update`;
    const acts = [operator.post(own, { ...mine, reason: REASON }), other.post(theirs, { ...his, reason: REASON })];
    await until(
      () => waitingForLocks(homeOf(sql)),
      (count) => count === 2,
    );
    return { acts };
  });
  const statuses = (await Promise.all(both.acts)).map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [303, 404]);
  assert.notEqual(await isSuspended(bobId), await isSuspended(id));
  await homeOf(
    sql,
  )`update users set date_disabled = null, disabled_reason = null where id = any(${[bobId, id]}::bigint[])`;
  await operator.signIn(owners.bob);
});

const RACES: Readonly<Record<string, (person: Owner) => Promise<() => Promise<{ status: number }>>>> = {
  'a sign-in': async ({ email }) => {
    const browser = createBrowser(origin);
    return () => browser.signIn(email);
  },
  'a consent': async ({ browser }) => {
    const { credentials } = await newApp();
    return () => browser.consent(asking({ client_id: credentials.client_id }));
  },
};
for (const [what, prepare] of Object.entries(RACES))
  test(`a request that began before the suspension gives nothing: ${what}`, async () => {
    const person = await newOwner();
    const start = await prepare(person);
    await transaction(homeOf(sql), async (tx) => {
      await tx`delete from session where user_id = ${person.userId} and ${what !== 'a consent'}`;
      await tx`update users set date_disabled = now(), disabled_reason = ${REASON} where id = ${person.userId}`;
      const request = start();
      await until(
        () => waitingForLocks(homeOf(sql)),
        (count) => count > 0,
      );
      return { request };
    }).then(({ request }) => request);
    const left = await homeOf(sql)`
      select from access_grant where user_id = ${person.userId}
      union all select from session where user_id = ${person.userId} and ${what !== 'a consent'}`;
    assert.equal(left.length, 0);
  });
