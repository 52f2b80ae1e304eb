/** A process with another secret key would take shards, open no webhook's key and deliver nothing: it does not start. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { MIGRATIONS, migrate } from '#db/migrate.ts';
import { DatabaseError } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { checkSealingKey } from '#db/sealing-key.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { runCommand } from '../setup/command.ts';
import { emptyDatabase, testDatabase, urlOf } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';

const from = 'HALCYON_SECRET_KEY';
const REFUSAL = /^halcyon: HALCYON_SECRET_KEY is another key.*\n$/;

test('a process with another key than the first one had does not start, whatever its role', async (t) => {
  const { address } = await testDatabase(t);
  const env = { DATABASE_URL: urlOf(address), PORT: String(await freePort()) };
  const run = (command: string, key: Buffer) =>
    runCommand([command], { ...env, HALCYON_SECRET_KEY: key.toString('hex') });
  assert.equal((await run('migrate', randomBytes(32))).code, 0);
  const other = randomBytes(32);
  for (const command of ['migrate', 'serve', 'deliver']) {
    const { code, out, err } = await run(command, other);
    assert.match(err, REFUSAL);
    assert.equal(out, '');
    assert.equal(code, 1);
  }
});

test('a database that was in use keeps the key it was sealed with, whichever process migrates it', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-migrations-'));
  t.after(() => rm(folder, { recursive: true }));
  const older = (await readdir(MIGRATIONS)).filter((name) => /^000[1-4]-/.test(name));
  await Promise.all(older.map((name) => copyFile(join(MIGRATIONS, name), join(folder, name))));
  const { sql } = await emptyDatabase(t);
  await migrate(sql, folder);
  const now = new Date();
  const storeId = idOf(2, 7);
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${shardOf(storeId)}, ${storeId}, 'Alpha', 'alpha.example.com', 'shop@example.com', 'UTC', ${now}, ${now})`;
  const [key, other] = [randomBytes(32), randomBytes(32)];
  const id = idOf(1, shardOf(storeId));
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, encryption_key, events, is_active, headers,
      retry_profile, date_created, date_modified)
    values (${shardOf(storeId)}, ${id}, ${storeId}, 'hook', 'json', '2',
      ${createSealer(key).seal('secret', `webhook:${id}`)}, '{}', false, '{}', 'long', ${now}, ${now})`;
  await migrate(sql, MIGRATIONS);
  await assert.rejects(checkSealingKey(sql, { keys: [other], from }), DatabaseError);
  await checkSealingKey(sql, { keys: [key], from });
});

test('of two first processes that start at once with two keys one is rejected', async (t) => {
  const { sql } = await testDatabase(t);
  const keys = Array.from({ length: 8 }, () => randomBytes(32));
  const settled = await Promise.allSettled(keys.map((key) => checkSealingKey(sql, { keys: [key], from })));
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 1);
  // Later processes do not change that.
  await assert.rejects(checkSealingKey(sql, { keys: [randomBytes(32)], from }), DatabaseError);
});
