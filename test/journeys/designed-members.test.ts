/** The designed page of a store's members: roles in words, and forms in the rows for owners. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createBrowser } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { createFiller, HTML } from '../setup/form-filler.ts';

const people = await startWithPeople();
const { call, alpha, adaId, bobId, ada, bob, store, platformToken: platform } = people;
const owner = createFiller(people.origin, people.browser);
const bobsBrowser = createBrowser(people.origin);
await bobsBrowser.signIn(bob);
const other = createFiller(people.origin, bobsBrowser);
const MEMBERS = `/stores/${alpha}/members`;
const BOB = `${MEMBERS}/${bobId}`;

const setRole = (role: string) => call('PATCH', BOB, { token: platform, body: { role } });
beforeEach(async () => {
  await call('POST', MEMBERS, { token: platform, body: { user: bobId, role: 'member' } });
  await setRole('member');
});

/** Returns the row of a person: its text, and the fields of its forms by method. */
async function rowOf(email: string, by = owner, query = '') {
  const response = await by.show(MEMBERS + query);
  assert.equal(response.status, 200);
  const [, list = ''] = /<ul class="rows">([^]*?)<\/ul>/.exec(await response.text()) ?? [];
  const row = list.split('<li>').find((one) => one.includes(`${email}</a`)) ?? '';
  const forms = [...row.matchAll(/<form method="post" action="([^"]*)"[^>]*>([^]*?)<\/form>/g)];
  const fieldsIn = (inside: string): URLSearchParams =>
    new URLSearchParams(
      [...inside.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, name = '', value = '']) => [
        name,
        value,
      ]),
    );
  const words = row
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const byMethod = new Map(forms.map(([, , inside = '']) => [fieldsIn(inside).get('_method'), fieldsIn(inside)]));
  return { words, targets: forms.map(([, action]) => action), form: (method: string) => byMethod.get(method) };
}
async function post(form: URLSearchParams | undefined) {
  assert.ok(form !== undefined);
  return owner.send(BOB, form);
}
const roleOf = async (userId: number): Promise<unknown> =>
  (await call('GET', `${MEMBERS}/${userId}`, { token: platform })).body['role'];

test('each member has the role and the day in words, and the reader is marked', async () => {
  assert.match((await rowOf(ada)).words, new RegExp(`^${ada} Owner you Since \\d+ \\w+ \\d{4}\\b`));
  assert.match((await rowOf(bob)).words, new RegExp(`^${bob} Member Since \\d+ \\w+ \\d{4} Make an owner`));
  assert.match((await rowOf(bob, other)).words, /Member you Since/);
});

test('an owner changes a role in the row and returns to the list', async () => {
  for (const role of ['owner', 'member']) {
    const changed = await post((await rowOf(bob)).form('PATCH'));
    assert.equal(changed.headers.get('location'), `${MEMBERS}?done=changed`);
    assert.equal(await roleOf(bobId), role);
  }
});

test('an owner removes a member in the row, after reading what ends', async () => {
  const row = await rowOf(bob);
  assert.match(row.words, /loses access to the store at once, and so do the apps/);
  const removed = await post(row.form('DELETE'));
  assert.equal(removed.headers.get('location'), `${MEMBERS}?done=deleted`);
  assert.equal(await roleOf(bobId), undefined);
});

test('a role that another person has changed meanwhile is not changed again', async () => {
  const form = (await rowOf(bob)).form('DELETE');
  await setRole('owner');
  assert.equal((await post(form)).status, 412);
  assert.equal(await roleOf(bobId), 'owner');
});

test('the only owner has no forms, and two owners have', async () => {
  assert.match((await rowOf(ada)).words, /The only owner/);
  assert.deepEqual((await rowOf(ada)).targets, []);
  await setRole('owner');
  assert.deepEqual((await rowOf(ada)).targets, [`${MEMBERS}/${adaId}`, `${MEMBERS}/${adaId}`]);
  assert.match((await rowOf(ada)).words, /Make a member.* Leave the store/);
});

test('a page that may not show all owners calls no one the only owner', async () => {
  await setRole('owner');
  for (const query of ['?limit=1&order=user_id', `?user_id=${adaId}`])
    assert.doesNotMatch((await rowOf(ada, owner, query)).words, /only owner/);
});

test('a member has only the form to leave, and a form of an owner is rejected', async () => {
  assert.match((await rowOf(bob, other)).words, /Leave the store/);
  assert.deepEqual((await rowOf(bob, other)).targets, [BOB]);
  const { targets, words } = await rowOf(ada, other);
  assert.deepEqual(targets, []);
  assert.doesNotMatch(words, /only owner|Remove/);
  const form = (await rowOf(bob)).form('PATCH');
  assert.ok(form !== undefined);
  assert.equal((await other.send(BOB, form)).status, 403);
  assert.equal(await roleOf(bobId), 'member');
});

test('an app, and a list without its properties or rows, have the generic page', async () => {
  const isDesigned = async (response: Response): Promise<boolean> => {
    assert.equal(response.status, 200);
    return (await response.text()).includes('class="rows"');
  };
  const headers = { ...HTML, Authorization: `Bearer ${store}` };
  assert.equal(await isDesigned(await fetch(people.origin + MEMBERS, { headers })), false);
  for (const query of ['?fields=email', '?role=nothing']) {
    assert.equal(await isDesigned(await owner.show(MEMBERS + query)), false);
  }
});
