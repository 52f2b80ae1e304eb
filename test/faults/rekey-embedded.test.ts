/** `halcyon rekey` with the embedded database, whose key is in a file: it creates the new one by itself. */
import assert from 'node:assert/strict';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { openPool } from '#db/pool.ts';
import { createStore } from '#stores/store.ts';
import { runProcess } from '../setup/command.ts';
import { hold, temporaryFolder } from '../setup/embedded-process.ts';
import { keyOf, sealWebhooks } from '../setup/sealed-webhooks.ts';

const SHOP = { name: 'Alpha', domain: 'alpha.example.com', email: 'shop@example.com', timeZone: 'UTC' };

test('the key in the file is changed while no process runs, and rejected while one does', async (t) => {
  const dataDir = await temporaryFolder(t);
  const run = (...args: string[]) => runProcess(args, { HALCYON_DATA: dataDir });
  const keyFiles = async () => (await readdir(dataDir)).filter((name) => name.startsWith('secret-key')).toSorted();
  const path = join(dataDir, 'secret-key');
  const made = await run('migrate');
  assert.equal(made.code, 0, made.err);
  const old = (await readFile(path, 'utf8')).trim();

  const first = hold(t, dataDir);
  const { address } = await first.next();
  assert.ok(address !== undefined);
  const sql = openPool(address, { connections: 1, applicationName: 'halcyon' });
  const { id: storeId } = await createStore(sql, { ...SHOP, now: new Date() });
  const [id = 0] = await sealWebhooks(sql, createSealer(Buffer.from(old, 'hex')), { storeId, first: 1_000, count: 1 });
  const refused = await run('rekey');
  assert.equal(refused.code, 1);
  assert.match(refused.err, /^halcyon: Halcyon is running on .*: stop it, then run this again\n$/);
  assert.deepEqual(await keyFiles(), ['secret-key']);
  await sql.end();
  await first.release();

  const changed = await run('rekey');
  assert.equal(changed.code, 0, changed.err);
  assert.match(
    changed.out,
    /^1 webhook and 0 stored responses resealed in .*\nStart Halcyon again\. The previous key is kept in .*secret-key\.old/,
  );
  const fresh = (await readFile(path, 'utf8')).trim();
  assert.notEqual(fresh, old);
  assert.deepEqual(await keyFiles(), ['secret-key', 'secret-key.old']);

  // The state of a run that ended after the database had the new key, and before the file had: it is continued.
  await rename(path, `${path}.next`);
  await rm(`${path}.old`);
  await writeFile(path, `${old}\n`);
  const started = await run('migrate');
  assert.equal(started.code, 0, started.err);
  const again = await run('rekey');
  assert.equal(again.code, 0, again.err);
  assert.equal((await readFile(path, 'utf8')).trim(), fresh);
  await rm(`${path}.old`);

  const second = hold(t, dataDir);
  const { address: at } = await second.next();
  assert.ok(at !== undefined);
  const then = openPool(at, { connections: 1, applicationName: 'halcyon' });
  const [row] = await then<{ key: Buffer }[]>`select encryption_key as key from webhook`;
  assert.equal(createSealer(Buffer.from(fresh, 'hex')).open(row?.key ?? Buffer.alloc(0), `webhook:${id}`), keyOf(id));
  await then.end();
  await second.release();
});
