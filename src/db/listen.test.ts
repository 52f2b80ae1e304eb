import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { test } from 'node:test';
import { emptyDatabase, testDatabase } from '../../test/setup/database.ts';
import { cleanups } from '../../test/setup/cleanups.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { until } from '../../test/setup/until.ts';
import { listen, openPool, type Sql } from './pool.ts';
import { NEVER_QUIET } from '../../test/setup/clock.ts';

async function startListening(sql: Sql, silenceMs: number) {
  const events = new EventEmitter();
  let missed = 0;
  const emit = (channel: string) => (payload: string) => events.emit('message', channel, payload);
  const { stop } = await listen(
    sql,
    { 'channel one': emit('one'), two: emit('two') },
    { onMissed: () => events.emit('missed', (missed += 1)), silenceMs, pace: NEVER_QUIET },
  );
  return { events, stop, missed: () => missed };
}

test('notifications arrive, also after the connection broke, and the gap is reported', async (t) => {
  const { sql } = await emptyDatabase(t);
  const { events, stop, missed } = await startListening(sql, 60_000);
  const first = once(events, 'message');
  await sql`select pg_notify('channel one', 'hello')`;
  assert.deepEqual(await first, ['one', 'hello']);
  assert.equal(missed(), 0);

  const again = once(events, 'missed');
  const [broken] = await sql<{ n: number }[]>`
    select count(pg_terminate_backend(pid)) as n from pg_stat_activity
    where datname = current_database() and query like 'listen%'`;
  assert.equal(broken?.n, 1);
  assert.deepEqual(await again, [1]);
  const second = once(events, 'message');
  await sql`select pg_notify('two', 'still there?')`;
  assert.deepEqual(await second, ['two', 'still there?']);
  await stop();
});

test('a silent connection is replaced, and the possible gap is reported', async () => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const through = openPool({ kind: 'url', url: proxy.url }, { connections: 1, applicationName: 'test' });
  ends.after(() => through.end({ timeout: 0 }));
  const { events, stop, missed } = await startListening(through, 200);
  ends.after(stop);
  // The connection is lost more often if the machine pauses for longer than its limit.
  const before = missed();
  proxy.silence();
  await until(
    async () => missed(),
    (times) => times > before,
  );
  const messages: string[][] = [];
  events.on('message', (...message: string[]) => messages.push(message));
  await until(
    () => sql`select pg_notify('two', 'still there?')`,
    () => messages.length > 0,
  );
  assert.deepEqual(messages[0], ['two', 'still there?']);
});
