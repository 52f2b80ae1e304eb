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
/** Notes the call of a function in the transaction, and of the one that it returns. */
const following = (name: string) => async () => {
  called.push(name);
  return async () => void called.push(`${name}, after the commit`);
};
const deps = {
  home,
  onDomainChanged: following('domain'),
  onTimeZoneChanged: async () => void called.push('time zone'),
  onErased: following('erased'),
  now,
};
/** Copies the store as the outbox does, and returns what was called. */
async function copy(storeId: number): Promise<string[]> {
  called.length = 0;
  const finish = await transaction(other, (tx) => copyStore(tx, storeId, deps));
  await finish?.();
  return [...called];
}

test('a copy gets each change, and what follows that of the domain and an erasure runs after the commit too', async () => {
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
  assert.deepEqual(await copy(id), ['time zone', 'domain', 'domain, after the commit']);
  await home`delete from store where id = ${id}`;
  assert.deepEqual(await copy(id), ['erased', 'erased, after the commit']);
  assert.deepEqual(await copy(id), []);
});
