/** An owner who adds members by e-mail address cannot find out which addresses have an account. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createFiller, filled } from '../setup/form-filler.ts';
import { createBrowser } from './oauth-server.ts';
import { startWithPeople } from './api-callers.ts';

const HOUR_MS = 3_600_000;
const people = await startWithPeople();
const { alpha, beta, bob, bobId, call, sql, adaId } = people;
const MEMBERS = `/stores/${alpha}/members`;
const owner = createFiller(people.origin, people.browser);
const bobsBrowser = createBrowser(people.origin);
await bobsBrowser.signIn(bob);
const other = createFiller(people.origin, bobsBrowser);

async function formIn(members: string): Promise<URLSearchParams> {
  const form = await owner.formFor(members, 'POST');
  form.delete('_key');
  return form;
}
const add = async (email: string) => owner.send(MEMBERS, filled(await formIn(MEMBERS), { email, role: 'member' }));
async function guesses(count: number, members = MEMBERS): Promise<Record<string, number>> {
  const form = await formIn(members);
  const asked = Array.from({ length: count }, (_, i) =>
    owner.send(members, filled(form, { email: `guess-${i}@example.com`, role: 'member' })),
  );
  const answers: Record<string, number> = {};
  for (const { status } of await Promise.all(asked)) answers[status] = (answers[status] ?? 0) + 1;
  return answers;
}

let platform = '';

beforeEach(async () => {
  people.wait(HOUR_MS);
  await people.browser.signIn(people.ada);
  // The one before has expired by now.
  const granted = await people.token({ grant_type: 'client_credentials', scope: 'platform', ...people.platform });
  platform = String(granted.body['access_token']);
  await call('DELETE', `${MEMBERS}/${bobId}`, { token: platform });
});

test('of many concurrent guesses 20 are answered, and more after an hour', async () => {
  assert.deepEqual(await guesses(30), { 400: 20, 429: 10 });
  const refused = await add(bob);
  assert.equal(refused.status, 429, 'an address with an account gets the same answer');
  assert.equal(refused.headers.get('retry-after'), '180');
  assert.match(await refused.text(), /\b180 s\b/);
  people.wait(HOUR_MS);
  await people.browser.signIn(people.ada);
  assert.deepEqual(await guesses(21), { 400: 20, 429: 1 });
});

test('adding an existing account is not counted as a guess', async () => {
  for (let i = 0; i < 22; i += 1) {
    assert.equal((await add(bob)).status, 303);
    assert.equal((await add(bob)).status, 409);
    await call('DELETE', `${MEMBERS}/${bobId}`, { token: platform });
  }
  assert.deepEqual(await guesses(21), { 400: 20, 429: 1 });
});

test('guesses are counted per person over all stores, and for no other person', async () => {
  const two = `/stores/${beta}/members`;
  await sql`update membership set role = 'owner' where store_id = ${beta} and user_id = ${adaId}`;
  assert.deepEqual(await guesses(20), { 400: 20 });
  assert.deepEqual(await guesses(1, two), { 429: 1 });
  await call('POST', MEMBERS, { token: platform, body: { user: bobId, role: 'owner' } });
  const unknown = { email: 'unknown@example.com', role: 'member' };
  await bobsBrowser.signIn(people.bob);
  const his = await other.send(MEMBERS, filled(await other.formFor(MEMBERS, 'POST'), unknown));
  assert.equal(his.status, 400);
  assert.equal((await call('POST', MEMBERS, { token: platform, body: unknown })).status, 400, 'nor for the platform');
});
