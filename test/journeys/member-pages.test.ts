/** Members of a store as its signed-in owners see and manage them: on the pages and with their forms. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createBrowser } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { createFiller, filled } from '../setup/form-filler.ts';

const people = await startWithPeople();
const { call, sql, alpha, adaId, bobId, ada, bob, store, platformToken: platform } = people;
const owner = createFiller(people.origin, people.browser);
const bobsBrowser = createBrowser(people.origin);
await bobsBrowser.signIn(bob);
const stranger = createFiller(people.origin, bobsBrowser);
const MEMBERS = `/stores/${alpha}/members`;

const roleOf = async (userId: number): Promise<unknown> =>
  (await call('GET', `${MEMBERS}/${userId}`, { token: platform })).body['role'];
const add = async (changes: Record<string, string>) =>
  owner.send(MEMBERS, filled(await owner.formFor(MEMBERS, 'POST'), changes));
const takeOut = (userId: number) => call('DELETE', `${MEMBERS}/${userId}`, { token: platform });

beforeEach(() => takeOut(bobId));

test('an owner adds a member by e-mail address, and both see each other', async () => {
  const added = await add({ email: ` ${bob.toUpperCase()}`, role: 'member' });
  assert.equal(added.headers.get('location'), `${MEMBERS}/${bobId}?done=created`);
  for (const reader of [owner, stranger]) {
    const page = await (await reader.show(MEMBERS)).text();
    for (const email of [ada, bob]) assert.match(page, new RegExp(`>\\s*${email}\\s*</a>`));
  }
  const [change] = await sql<{ body: string }[]>`
    select body from event where store_id = ${alpha} and resource_type = 'changelog' order by id desc limit 1`;
  assert.match(change?.body ?? '', new RegExp(`"user":${adaId},`), 'the changelog names the user');
});

test('an app sees no e-mail address, and cannot search for one', async () => {
  const { body } = await call('GET', MEMBERS, { token: store });
  assert.doesNotMatch(JSON.stringify(body), /@/);
  assert.equal((await call('GET', `${MEMBERS}?email=${ada}`, { token: store })).status, 400);
});

for (const [what, changes, message] of [
  ['without a user', {}, /either email or user/],
  ['with an unknown address', { email: 'unknown@example.com' }, /No account has this e-mail address/],
  ['who is a member already', { email: ada }, /is a member of the store already/],
] as const) {
  test(`an owner who adds a member ${what} gets a message with the error`, async () => {
    const refused = await add({ role: 'member', ...changes });
    assert.ok([400, 409].includes(refused.status), String(refused.status));
    assert.match(await refused.text(), message);
  });
}

test('an owner cannot add a member by id, and so does not learn which accounts exist', async () => {
  const form = await owner.formFor(MEMBERS, 'POST');
  assert.equal(form.has('user'), false);
  form.set('user', String(bobId));
  form.delete('email');
  form.set('role', 'member');
  const refused = await owner.send(MEMBERS, form);
  assert.equal(refused.status, 403);
  const page = await refused.text();
  assert.match(page, /Send email: only the scope platform/);
  assert.doesNotMatch(page, new RegExp(bob));
  assert.equal(await roleOf(bobId), undefined);
});

test('an owner makes a member an owner, and removes them again', async () => {
  await add({ email: bob, role: 'member' });
  const path = `${MEMBERS}/${bobId}`;
  await owner.send(path, filled(await owner.formFor(path, 'PATCH'), { role: 'owner' }));
  assert.equal(await roleOf(bobId), 'owner');
  assert.match(await (await owner.show(path)).text(), /lose access immediately/);
  const gone = await owner.send(path, await owner.formFor(path, 'DELETE'));
  assert.equal(gone.headers.get('location'), `${MEMBERS}?done=deleted`);
  assert.equal(await roleOf(bobId), undefined);
  assert.equal((await stranger.show(MEMBERS)).status, 404);
});

test('the only owner of a store cannot be demoted or removed', async () => {
  await add({ email: bob, role: 'member' });
  const path = `${MEMBERS}/${adaId}`;
  for (const form of [
    filled(await owner.formFor(path, 'PATCH'), { role: 'member' }),
    await owner.formFor(path, 'DELETE'),
  ]) {
    const refused = await owner.send(path, form);
    assert.equal(refused.status, 409);
    assert.match(await refused.text(), /only owner of the store/);
  }
  assert.equal(await roleOf(adaId), 'owner');
});

test('of two owners who remove each other at once, one stays', async () => {
  await add({ email: bob, role: 'owner' });
  const [one, other] = [`${MEMBERS}/${adaId}`, `${MEMBERS}/${bobId}`];
  const forms = [await stranger.formFor(one, 'DELETE'), await owner.formFor(other, 'DELETE')] as const;
  await Promise.all([stranger.send(one, forms[0]), owner.send(other, forms[1])]);
  const owners = await sql`select from membership where store_id = ${alpha} and role = 'owner'`;
  assert.equal(owners.length, 1);
  await call('POST', MEMBERS, { token: platform, body: { user: adaId, role: 'owner' } });
});

test('a member has no such forms, and a form that they send all the same is rejected', async () => {
  await add({ email: bob, role: 'owner' });
  const kept = filled(await stranger.formFor(MEMBERS, 'POST'), { email: 'solo@example.com', role: 'owner' });
  await call('PATCH', `${MEMBERS}/${bobId}`, { token: platform, body: { role: 'member' } });
  const page = await (await stranger.show(MEMBERS)).text();
  assert.doesNotMatch(page, /name="nonce"/);
  const refused = await stranger.send(MEMBERS, kept);
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /Only an owner of the store can do this/);
});
