/** The copy of a store in another database: what follows a change runs there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { singleDatabase } from '../../test/setup/database.ts';
import { copyStore, createStore } from './store.ts';

const { sql: home } = await singleDatabase();
const { sql: other } = await singleDatabase();
const now = new Date();

const called: string[] = [];
const noting = (name: string) => async () => void called.push(name);
const deps = {
  home,
  onDomainChanged: noting('domain'),
  onTimeZoneChanged: noting('time zone'),
  onErased: noting('erased'),
  now,
};
/** Copies the store as the outbox does, and returns what was called. */
async function copy(storeId: number): Promise<string[]> {
  called.length = 0;
  await transaction(other, (tx) => copyStore(tx, storeId, deps));
  return [...called];
}

test('a copy gets each change, and what follows those of the domain and the time zone and an erasure runs in its database', async () => {
  const store = { name: 'Shop', domain: 'shop.example.com', email: 'shop@example.com', timeZone: 'UTC' };
  const { id } = await createStore(home, { ...store, now });
  assert.deepEqual(await copy(id), []);
  await home`
    update store set name = 'Renamed', email = 'other@example.com', second_factor = 'required', suspended_reason = 'It leaks data',
      subscription_events = 'published', sandbox_of = 1, revision = 2, date_modified = now() where id = ${id}`;
  assert.deepEqual(await copy(id), []);
  const [original, copied] = [await home`select * from store`, await other`select * from store`];
  assert.deepEqual([...copied], [...original]);
  await home`update store set domain = 'other.example.com', time_zone = 'Asia/Tokyo' where id = ${id}`;
  assert.deepEqual(await copy(id), ['time zone', 'domain']);
  await home`delete from store where id = ${id}`;
  assert.deepEqual(await copy(id), ['erased']);
  assert.deepEqual(await copy(id), []);
});
