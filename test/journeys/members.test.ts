/** Members of a store over the API: read by each caller that can access the store, written by the platform. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { faultsOf, itemsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { call, sql, alpha, beta, foreign, adaId, bobId, store, account, platformToken: platform } = people;

const add = (user: unknown, role: unknown = 'member', storeId = alpha) =>
  call('POST', `/stores/${storeId}/members`, { token: platform, body: { user, role } });
const remove = (userId: number, headers = {}) =>
  call('DELETE', `/stores/${alpha}/members/${userId}`, { token: platform, headers });

const MEMBERS = `/stores/${alpha}/members`;
const crowd = (
  await sql<{ id: number }[]>`
  insert into users (id, email, password_hash, date_created)
  select 900000 + n, 'member-' || n || '@example.com', '-', now() from generate_series(1, 110) as n
  returning id`
).map(({ id }) => id);
const addOne = (user: number | undefined) => call('POST', MEMBERS, { token: platform, body: { user, role: 'member' } });
const members = async (): Promise<unknown> => (await call('GET', MEMBERS, { token: platform })).body['total_items'];

// Members

test('each caller that can access a store sees its members, without their addresses', async () => {
  const seen = await call('GET', `/stores/${alpha}/members`, { token: store });
  assert.equal(seen.status, 200);
  assert.equal(seen.body['total_items'], '1');
  const [ada] = itemsOf(seen, 'members');
  const { _links: links, ...properties } = ada ?? { _links: {} };
  assert.deepEqual(properties, {
    user_id: adaId,
    email: null,
    is_email_verified: true,
    role: 'owner',
    date_created: '2026-07-01T10:00:00+0000',
  });
  const self = `${ISSUER}/stores/${alpha}/members/${adaId}`;
  const hrefs = ['self', 'svc:store', 'svc:members', 'svc:user'].map((rel) => links[rel]?.href);
  assert.deepEqual(hrefs, [
    self,
    `${ISSUER}/stores/${alpha}`,
    `${ISSUER}/stores/${alpha}/members`,
    `${ISSUER}/users/${adaId}`,
  ]);
  assert.deepEqual((await call('GET', self, { token: account })).body, ada);
});

test('the platform adds a member, and only the platform sees a link to the user', async () => {
  const added = await add(bobId);
  assert.equal(added.status, 201);
  const address = `${ISSUER}/stores/${alpha}/members/${bobId}`;
  assert.equal(added.headers.get('location'), address);
  assert.equal(added.body._links['svc:user']?.href, `${ISSUER}/users/${bobId}`);
  const seen = await call('GET', address, { token: store });
  assert.deepEqual([seen.status, seen.body['role'], seen.body._links['svc:user']], [200, 'member', undefined]);
  await remove(bobId);
});

test('members can be filtered by their properties, and ordered', async () => {
  await add(bobId);
  const ids = async (query: string) =>
    itemsOf(await call('GET', `/stores/${alpha}/members?${query}`, { token: store }), 'members').map(
      (member) => member['user_id'],
    );
  assert.deepEqual(await ids('role=owner'), [adaId]);
  assert.deepEqual(
    await ids('order=user_id%20desc'),
    [adaId, bobId].toSorted((a, b) => b - a),
  );
  await remove(bobId);
});

test('adding a member again is rejected, so that no owner is demoted by it', async () => {
  const refused = await add(adaId, 'member');
  assert.deepEqual([refused.status, faultsOf(refused)], [409, ['user already_member']]);
  const { body } = await call('GET', `/stores/${alpha}/members/${adaId}`, { token: platform });
  assert.equal(body['role'], 'owner');
});

test('the platform changes the role of a member, unless the member was changed meanwhile', async () => {
  await add(bobId);
  const address = `/stores/${alpha}/members/${bobId}`;
  const read = await call('GET', address, { token: platform });
  const headers = { 'If-Match': String(read.headers.get('etag')) };
  const change = (role: string) => call('PATCH', address, { token: platform, body: { role }, headers });
  const changed = await change('owner');
  assert.deepEqual([changed.status, changed.body['role']], [200, 'owner']);
  assert.equal((await change('member')).status, 412);
  assert.equal((await remove(bobId, headers)).status, 412);
  assert.equal((await call('GET', address, { token: platform })).body['role'], 'owner');
  await remove(bobId);
});

for (const [what, body, faults] of [
  ['without anything', {}, ['role required']],
  ['without a person', { role: 'member' }, ['email required']],
  ['with two identifiers', { role: 'member', email: 'ada@example.com', user: 1 }, ['email invalid_value']],
  [
    'with every error',
    { user: 'ada', role: 'king', since: 1 },
    ['role invalid_value', 'since unknown_property', 'user invalid_value'],
  ],
  ['who is an unknown user', { user: 999_999_999, role: 'member' }, ['user invalid_value']],
] as const) {
  test(`a member ${what} is rejected`, async () => {
    const refused = await call('POST', `/stores/${alpha}/members`, { token: platform, body });
    assert.deepEqual([refused.status, faultsOf(refused)], [400, faults]);
  });
}

test('only the platform manages the members of a store', async () => {
  const body = { user: bobId, role: 'owner' };
  for (const token of [store, account]) {
    for (const [method, path, sent] of [
      ['POST', `/stores/${alpha}/members`, body],
      ['PATCH', `/stores/${alpha}/members/${adaId}`, { role: 'member' }],
      ['DELETE', `/stores/${alpha}/members/${adaId}`, undefined],
    ] as const) {
      const refused = await call(method, path, { token, body: sent });
      assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope']);
    }
  }
  assert.equal((await call('GET', `/stores/${alpha}/members`, { token: store })).body['total_items'], '1');
});

test('members of a store that an app cannot access are not found', async () => {
  for (const [token, id] of [
    [store, beta],
    [account, foreign],
    [platform, foreign + 256],
  ] as const) {
    assert.equal((await call('GET', `/stores/${id}/members`, { token })).status, 404);
    assert.equal((await call('GET', `/stores/${id}/members/${adaId}`, { token })).status, 404);
  }
  assert.equal((await add(adaId, 'owner', foreign + 256)).status, 404);
});

test('a removed user is no member any more, and the grants for the store do not return with the membership', async () => {
  const token = await people.tokenOf({ scope: 'store_full_access' });
  assert.equal((await call('GET', `/stores/${alpha}`, { token })).status, 200);
  assert.equal((await remove(adaId)).status, 204);
  assert.equal((await call('GET', `/stores/${alpha}`, { token })).status, 401);
  assert.equal((await call('GET', `/stores/${alpha}/members/${adaId}`, { token: platform })).status, 404);
  assert.equal((await remove(adaId)).status, 404);
  assert.equal((await add(adaId, 'owner')).status, 201);
  assert.equal((await call('GET', `/stores/${alpha}`, { token })).status, 401, 'the grant was revoked');
  assert.equal(
    (await call('GET', `/stores/${alpha}`, { token: account })).status,
    200,
    'the account has the store again',
  );
  const [entry] = await sql<{ userId: number; storeId: number; address: string }[]>`
    select user_id as "userId", store_id as "storeId", address from audit where action = 'grant_revoked' order by id desc limit 1`;
  assert.deepEqual({ ...entry }, { userId: adaId, storeId: alpha, address: '127.0.0.1' });
  const entries = await sql<{ body: string }[]>`
    select body from event where resource_type = 'changelog' and store_id = ${alpha} order by id`;
  const changes = entries.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
  const revoked = changes.findLast(({ resource, action }) => resource === 'grant' && action === 'revoked');
  assert.deepEqual([revoked?.['actor'], revoked?.['client']], ['platform', people.platform.client_id]);
});

// The limit

test('of 20 concurrent adds to a store with 90 members, 10 succeed, and a removed member frees a place', async () => {
  await sql`
    insert into membership (shard, store_id, user_id, role, date_created)
    select m.shard, m.store_id, added.id, 'member', now()
    from membership m cross join unnest(${crowd.slice(0, 89)}::bigint[]) as added (id)
    where m.store_id = ${alpha} and m.user_id = ${adaId}`;
  const answers = await Promise.all(crowd.slice(89, 109).map(addOne));
  const refused = answers.filter(({ status }) => status === 409);
  assert.equal(answers.filter(({ status }) => status === 201).length, 10);
  assert.equal(refused.length, 10);
  for (const answer of refused) assert.deepEqual(faultsOf(answer), ['- limit_reached']);
  assert.equal(await members(), '100');
  await call('DELETE', `${MEMBERS}/${crowd[0]}`, { token: platform });
  assert.equal((await addOne(crowd[109])).status, 201);
});
