import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { test } from 'node:test';
import { emptyDatabase } from '../../test/setup/database.ts';
import { listen } from './listen.ts';

test('what is said is heard, also after the connection broke, which is told', async (t) => {
  const { sql } = await emptyDatabase(t);
  const heard = new EventEmitter();
  let reconnects = 0;
  const { stop } = await listen(
    sql,
    'channel one',
    (payload) => heard.emit('message', payload),
    () => heard.emit('reconnect', (reconnects += 1)),
  );
  const first = once(heard, 'message');
  await sql.notify('channel one', 'hello');
  assert.deepEqual(await first, ['hello']);
  assert.equal(reconnects, 0);

  const again = once(heard, 'reconnect');
  const [broken] = await sql<{ n: number }[]>`
    select count(pg_terminate_backend(pid)) as n from pg_stat_activity
    where datname = current_database() and query like 'listen%'`;
  assert.equal(broken?.n, 1);
  assert.deepEqual(await again, [1]);
  const second = once(heard, 'message');
  await sql.notify('channel one', 'still there?');
  assert.deepEqual(await second, ['still there?']);
  await stop();
});
