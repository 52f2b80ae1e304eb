/** The limit of members of a store holds under concurrent requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultsOf } from '../setup/caller.ts';
import { startWithPeople } from '../security/api-callers.ts';

const { call, sql, alpha, adaId, platformToken: token } = await startWithPeople();
const MEMBERS = `/stores/${alpha}/members`;
const people = (
  await sql<{ id: number }[]>`
  insert into users (id, email, password_hash, date_created)
  select 900000 + n, 'member-' || n || '@example.com', '-', now() from generate_series(1, 110) as n
  returning id`
).map(({ id }) => id);
const add = (user: number | undefined) => call('POST', MEMBERS, { token, body: { user, role: 'member' } });
const members = async (): Promise<unknown> => (await call('GET', MEMBERS, { token })).body['total_items'];

test('of 20 concurrent adds to a store with 90 members, 10 succeed, and a removed member frees a place', async () => {
  await sql`
    insert into membership (shard, store_id, user_id, role, date_created)
    select m.shard, m.store_id, added.id, 'member', now()
    from membership m cross join unnest(${people.slice(0, 89)}::bigint[]) as added (id)
    where m.store_id = ${alpha} and m.user_id = ${adaId}`;
  const answers = await Promise.all(people.slice(89, 109).map(add));
  const refused = answers.filter(({ status }) => status === 409);
  assert.equal(answers.filter(({ status }) => status === 201).length, 10);
  assert.equal(refused.length, 10);
  for (const answer of refused) assert.deepEqual(faultsOf(answer), ['- limit_reached']);
  assert.equal(await members(), '100');
  await call('DELETE', `${MEMBERS}/${people[0]}`, { token });
  assert.equal((await add(people[109])).status, 201);
});
