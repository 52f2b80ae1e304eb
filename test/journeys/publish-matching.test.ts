/** A publish reads only the webhooks of its own store to find those that match, however many other stores have. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startEngine } from '../setup/engine.ts';

const STORES = 200;
const WEBHOOKS_A_STORE = 100;
const EVENTS = 10;

const ends = cleanups();
const { address } = await testDatabase(ends);
// One connection: it reports what it has read to the statistics on request.
const sql = openPool(address, { connections: 1, applicationName: 'matching' });
ends.after(() => sql.end({ timeout: 0 }));
const engine = await startEngine({ sql, ends });

/** Returns the rows of webhooks that were read, by any access path. */
async function rowsRead(): Promise<number> {
  await sql`select pg_stat_force_next_flush()`;
  const [row] = await sql<{ read: number }[]>`
    select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as read from pg_stat_user_tables where relname = 'webhook'`;
  return row?.read ?? 0;
}

test('a publish reads the webhooks of its own store and no others of its shard', async () => {
  const { storeId } = engine;
  const shard = shardOf(storeId);
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    select shard, id + n * 256, name, domain, email, time_zone, date_created, date_modified
    from store, generate_series(1, ${STORES}::int) n where id = ${storeId}`;
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, encryption_key, event_resource, events, is_active,
      headers, retry_profile, date_created, date_modified)
    select ${shard}, (5000000 + n) * 256 + ${shard}, ${storeId} + 256 * (1 + n % ${STORES}::int), 'hook', 'json', '2', 'http://127.0.0.1:9/', '\\x00',
      'transaction', array['transaction/created'], true, '{}', 'hour', now(), now()
    from generate_series(1, ${STORES * WEBHOOKS_A_STORE}::int) n`;
  await engine.addWebhook('http://127.0.0.1:9/');
  await sql`analyze webhook`;
  const before = await rowsRead();
  const published = await engine.publish(Array.from({ length: EVENTS }, (_, id) => id + 1));
  assert.equal(published.length, EVENTS);
  const read = (await rowsRead()) - before;
  const [deliveries] = await sql<{ n: number }[]>`select count(*) as n from delivery where store_id = ${storeId}`;
  assert.equal(deliveries?.n, EVENTS);
  assert.ok(read >= EVENTS && read <= 2 * EVENTS, `${read} rows were read for ${EVENTS} events`);
});
