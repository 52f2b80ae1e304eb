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
const add = (role: string) => call('POST', MEMBERS, { token: platform, body: { user: bobId, role } });
const takeOut = (userId: number) => call('DELETE', `${MEMBERS}/${userId}`, { token: platform });

beforeEach(() => takeOut(bobId));

test('members see the addresses of each other', async () => {
  await add('member');
  for (const reader of [owner, stranger]) {
    const page = await (await reader.show(MEMBERS)).text();
    for (const email of [ada, bob]) assert.match(page, new RegExp(`>\\s*${email}\\s*</a>`));
  }
});

test('an app sees no e-mail address, and cannot search for one', async () => {
  const { body } = await call('GET', MEMBERS, { token: store });
  assert.doesNotMatch(JSON.stringify(body), /@/);
  assert.equal((await call('GET', `${MEMBERS}?email=${ada}`, { token: store })).status, 400);
});

test('an owner adds no person who has not accepted', async () => {
  const page = await (await owner.show(MEMBERS)).text();
  assert.doesNotMatch(page, new RegExp(`action="[^"]*${MEMBERS}"`));
  assert.match(page, /Invite a person/);
  // The generic page has a form for each action that the reader may use.
  const generic = await (await owner.show(`${MEMBERS}?fields=email`)).text();
  assert.doesNotMatch(generic, /Add a member/);
  const nonce = (await owner.formFor(`${MEMBERS}/${adaId}`, 'DELETE')).get('nonce') ?? '';
  for (const body of [{ email: bob }, { user: String(bobId) }]) {
    const refused = await owner.send(MEMBERS, new URLSearchParams({ ...body, nonce, role: 'member' }));
    assert.equal(refused.status, 403);
    assert.equal(await roleOf(bobId), undefined);
  }
});

test('a member leaves the store, and the only owner does not', async () => {
  await add('member');
  assert.match(await (await stranger.show(MEMBERS)).text(), /Leave the store/);
  const path = `${MEMBERS}/${bobId}`;
  const left = await stranger.send(path, await stranger.formFor(path, 'DELETE'));
  assert.deepEqual([left.status, left.headers.get('location')], [303, '/stores?done=left']);
  assert.equal(await roleOf(bobId), undefined);
  assert.equal((await stranger.show(MEMBERS)).status, 404);
  const [change] = await sql<{ body: string }[]>`
    select body from event where store_id = ${alpha} and resource_type = 'changelog' order by id desc limit 1`;
  assert.match(change?.body ?? '', new RegExp(`"user":${bobId},`), 'the changelog names the person');
});

test('a sandbox store needs no owner: the only one leaves it', async () => {
  await sql`update store set sandbox_of = ${adaId} where id = ${alpha}`;
  const path = `${MEMBERS}/${adaId}`;
  const left = await owner.send(path, await owner.formFor(path, 'DELETE'));
  assert.equal(left.status, 303);
  assert.equal(await roleOf(adaId), undefined);
  await sql`update store set sandbox_of = null where id = ${alpha}`;
  await call('POST', MEMBERS, { token: platform, body: { user: adaId, role: 'owner' } });
});

test('a member removes no other member', async () => {
  await add('owner');
  const path = `${MEMBERS}/${adaId}`;
  const form = await stranger.formFor(path, 'DELETE');
  await call('PATCH', `${MEMBERS}/${bobId}`, { token: platform, body: { role: 'member' } });
  assert.equal((await stranger.send(path, form)).status, 403);
  assert.equal(await roleOf(adaId), 'owner');
});

test('an owner makes a member an owner, and removes them again', async () => {
  await add('member');
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
  await add('member');
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
  await add('owner');
  const [one, other] = [`${MEMBERS}/${adaId}`, `${MEMBERS}/${bobId}`];
  const forms = [await stranger.formFor(one, 'DELETE'), await owner.formFor(other, 'DELETE')] as const;
  await Promise.all([stranger.send(one, forms[0]), owner.send(other, forms[1])]);
  const owners = await sql`select from membership where store_id = ${alpha} and role = 'owner'`;
  assert.equal(owners.length, 1);
  await call('POST', MEMBERS, { token: platform, body: { user: adaId, role: 'owner' } });
});

test('a member has no such forms, and a form that they send all the same is rejected', async () => {
  await add('owner');
  const path = `${MEMBERS}/${adaId}`;
  const kept = filled(await stranger.formFor(path, 'PATCH'), { role: 'member' });
  await call('PATCH', `${MEMBERS}/${bobId}`, { token: platform, body: { role: 'member' } });
  assert.doesNotMatch(await (await stranger.show(path)).text(), /name="nonce"/);
  const refused = await stranger.send(path, kept);
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /Only an owner of the store can do this/);
});
