/** A process with another secret key would take shards, open no webhook's key and deliver nothing: it does not start. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { DatabaseError } from '#db/pool.ts';
import { checkSealingKey } from '#db/seal.ts';
import { runCommand } from '../setup/command.ts';
import { testDatabase, urlOf } from '../setup/database.ts';
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

test('of two first processes that start at once with two keys one is rejected', async (t) => {
  const { sql } = await testDatabase(t);
  const keys = Array.from({ length: 8 }, () => randomBytes(32));
  const settled = await Promise.allSettled(keys.map((key) => checkSealingKey(sql, { keys: [key], from })));
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 1);
  // Later processes do not change that.
  await assert.rejects(checkSealingKey(sql, { keys: [randomBytes(32)], from }), DatabaseError);
});
