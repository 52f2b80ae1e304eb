/** Several databases: the first start makes the map of shards from the setting, later ones check it. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { test, type TestContext } from 'node:test';
import { DatabaseError, type Sql } from '#db/pool.ts';
import { isMoving } from '#db/unavailable.ts';
import { createSealer, keyIdOf, readSealingKey } from '#db/seal.ts';
import { findIdentity, listLeasedShards, readIdentity, readMap, readVersion, writeHome } from '#shards/map-sql.ts';
import { formatShards, shardsOf } from '#shards/map.ts';
import { createLog } from '#core/log.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { readConfig } from '#config/config.ts';
import { createPoolOpener, openInstallation, type Installation } from '../../src/cli/installation.ts';
import { runCommand } from '../setup/command.ts';
import { emptyDatabase, testDatabase } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';
import { keyOf, sealWebhooks } from '../setup/sealed-webhooks.ts';
import { settingsOf, severalDatabases, withUrl } from '../setup/several-databases.ts';

/** Opens an installation as `serve` does; returns the log entries as well. */
async function open(t: TestContext, env: Record<string, string>): Promise<Installation & { entries: string[] }> {
  const entries: string[] = [];
  const log = createLog('info', { write: (line: string) => void entries.push(line) });
  const installation = await openInstallation(readConfig(env, tmpdir()), log, { usesRunningServer: false });
  t.after(installation.close);
  return { ...installation, entries };
}

/** Asserts that the installation does not open; returns the message, which names no password. */
async function refusal(t: TestContext, env: Record<string, string>): Promise<string> {
  let message = '';
  await assert.rejects(open(t, env), (error: unknown) => {
    assert.ok(error instanceof DatabaseError, String(error));
    message = error.message;
    return true;
  });
  assert.doesNotMatch(message, /postgres:\/\/|\n/);
  return message;
}

async function createStore(sql: Sql, shard: number): Promise<void> {
  const id = idOf(2, shard);
  const now = new Date();
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${shardOf(id)}, ${id}, 'Alpha', ${`${id}.example.com`}, 'shop@example.com', 'UTC', ${now}, ${now})`;
}

const leasesOf = async (sql: Sql): Promise<string> => formatShards(await listLeasedShards(sql));

test('the first start divides the shards: each database has the leases of its own, and knows its home database', async (t) => {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const env = settingsOf(home, { '0-63': home, '64-127': b, '128-199': c, '200-255': b });
  const { databases, secretKeys } = await open(t, env);
  assert.equal(await leasesOf(home.sql), '0-63');
  assert.equal(await leasesOf(b.sql), '64-127, 200-255');
  assert.equal(await leasesOf(c.sql), '128-199');
  const map = await readMap(home.sql);
  assert.deepEqual(
    map.databases.map((one) => [one.name, formatShards(shardsOf(map, one.id))]),
    [
      [home.name, '0-63'],
      [b.name, '64-127, 200-255'],
      [c.name, '128-199'],
    ],
  );
  const { identity } = await readIdentity(home.sql);
  for (const other of [b, c]) assert.equal((await readIdentity(other.sql)).home, identity);
  assert.deepEqual(
    databases.map(({ id, name, address, isPrepared }) => ({ id, name, address, isPrepared })),
    [b, c].map(({ name, url }, at) => ({ id: at + 1, name, address: { kind: 'url', url }, isPrepared: true })),
  );
  for (const { address } of map.databases) assert.doesNotMatch(String(address), /postgres:/);
  const [, sealed] = map.databases;
  assert.equal(createSealer(...secretKeys).open(sealed?.address ?? Buffer.alloc(0), 'shard_database:1'), b.url);

  const again = await open(t, env);
  assert.equal(await readVersion(home.sql), map.version, 'an unchanged setting changes nothing');
  const { SHARD_DATABASES: _, ...without } = env;
  const mapped = await open(t, without);
  const namesOf = ({ databases: some }: Installation) => some.map(({ name }) => name);
  assert.deepEqual([namesOf(again), namesOf(mapped)], [namesOf({ databases } as Installation), [b.name, c.name]]);
});

test('one database needs no map', async (t) => {
  const [home] = await severalDatabases(t, 1);
  const { databases } = await open(t, settingsOf(home));
  assert.deepEqual(databases, []);
  assert.equal(await readVersion(home.sql), 0);
  assert.equal(await leasesOf(home.sql), '0-255');
});

test('an adoption that was interrupted is repeated, also with another division', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const secretKey = randomBytes(32);
  await createStore(home.sql, 130);
  const env = settingsOf(home, { '0-127': home, '128-255': b }, secretKey);
  assert.match(await refusal(t, env), /stores in the shards 130,.*halcyon shards move/);
  assert.equal(await readVersion(home.sql), 0);
  assert.equal(await leasesOf(home.sql), '0-255', 'the home database still delivers everything');
  assert.equal(await leasesOf(b.sql), '128-255');
  await open(t, settingsOf(home, { '0-99': b, '100-255': home }, secretKey));
  assert.equal(await leasesOf(home.sql), '100-255');
  assert.equal(await leasesOf(b.sql), '0-99');
});

test('no store is made for another database in the first three seconds of the map', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  await open(t, settingsOf(home, { '0-127': home, '128-255': b }));
  await createStore(home.sql, 100);
  await assert.rejects(createStore(home.sql, 200), isMoving);
  await home.sql`update shard_map set date_created = date_created - interval '3 seconds'`;
  await createStore(home.sql, 200);
});

test('two processes that start together make one map', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const secretKey = randomBytes(32);
  const env = settingsOf(home, { '0-127': home, '128-255': b }, secretKey);
  const opened = await Promise.all([open(t, env), open(t, env), open(t, env)]);
  assert.deepEqual(new Set(opened.map(({ databases }) => databases.length)), new Set([1]));
  const map = await readMap(home.sql);
  assert.equal(map.databases.length, 2);
  assert.equal(map.version, map.databases.length, 'it was written once');
  assert.equal(await leasesOf(b.sql), '128-255');
});

test('of two home databases that take the same database at once, one gets it', async (t) => {
  const [one, two, b] = await severalDatabases(t, 3);
  assert.ok(two && b);
  const secretKey = randomBytes(32);
  const ends = await Promise.allSettled(
    [one, two].map((home) => open(t, settingsOf(home, { '0-127': home, '128-255': b }, secretKey))),
  );
  assert.deepEqual(ends.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  const versions = await Promise.all([one, two].map(({ sql }) => readVersion(sql)));
  assert.deepEqual(
    versions.toSorted((x, y) => x - y),
    [0, 2],
  );
});

test('databases that cannot get shards are refused before anything changes', async (t) => {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const secretKey = randomBytes(32);
  await createStore(b.sql, 200);
  assert.match(
    await refusal(t, settingsOf(home, { '0-127': home, '128-255': b }, secretKey)),
    new RegExp(`^${b.name} already has stores \\(shards 200\\)`),
  );
  assert.equal(await leasesOf(b.sql), '0-255');

  const twice = { url: `${c.url}&application_name=other` };
  assert.match(
    await refusal(t, settingsOf(home, { '0-127': c, '128-255': twice }, secretKey)),
    /two addresses of one database/,
  );
  const homeAgain = { url: `${home.url}&application_name=other` };
  assert.match(
    await refusal(t, settingsOf(home, { '0-127': homeAgain, '128-255': c }, secretKey)),
    /two addresses of one database/,
  );
  await writeHome(c.sql, '00000000-0000-4000-8000-000000000000');
  assert.match(
    await refusal(t, settingsOf(home, { '0-127': home, '128-255': c }, secretKey)),
    new RegExp(`^${c.name}: it belongs to the map of another home database`),
  );
  assert.equal(await readVersion(home.sql), 0);
  assert.equal(await leasesOf(c.sql), '0-255');
  assert.match(await refusal(t, settingsOf(c, {}, secretKey)), /DATABASE_URL is in the map of another database/);
});

test('a database with another key is refused', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const { close } = await open(t, settingsOf(b));
  await close();
  assert.match(
    await refusal(t, settingsOf(home, { '0-127': home, '128-255': b })),
    new RegExp(`^${b.name}: HALCYON_SECRET_KEY is another key`),
  );
});

test('a process whose setting differs from the map does not start, and says which database has which shards', async (t) => {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const secretKey = randomBytes(32);
  await open(t, settingsOf(home, { '0-127': home, '128-255': b }, secretKey));
  const version = await readVersion(home.sql);
  const differing = [
    [{ '0-126': home, '127-255': b }, '127'],
    [{ '0-127': b, '128-255': home }, '0-255'],
    [{ '0-127': home, '128-254': b, '255': c }, '255'],
    [{ '0-255': home }, '128-255'],
  ] as const;
  for (const [ranges, shards] of differing) {
    const message = await refusal(t, settingsOf(home, ranges, secretKey));
    assert.match(message, new RegExp(`differs for the shards ${shards} from version ${version} `));
    assert.ok(message.includes(`(${home.name} has 0-127; ${b.name} has 128-255)`), message);
  }
  assert.equal(await readVersion(home.sql), version);
  const env = { ...settingsOf(home, { '0-255': home }, secretKey), PORT: String(await freePort()) };
  for (const command of ['serve', 'deliver', 'migrate']) {
    const { code, out, err } = await runCommand([command], env);
    assert.match(err, /^halcyon: SHARD_DATABASES differs .*\n$/m);
    assert.deepEqual([code, out], [1, '']);
  }
});

test('a store of another database is not created in the moment after the map, and the command says so', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const env = settingsOf(home, { '0-127': home, '128-255': b });
  assert.equal((await runCommand(['migrate'], env)).code, 0);
  // As if the map was made at this moment, however slow the machine is.
  await home.sql`update shard_map set date_created = clock_timestamp() + interval '1 day'`;
  const create = () =>
    runCommand(['store', 'create', '--name', 'A', '--domain', 'a.example', '--email', 'a@a.example'], env);
  const results = [await create()];
  // Stores get their shards in turn: one of the first two belongs to the other database.
  results.push(await create());
  const refused = results.filter(({ code }) => code !== 0);
  assert.ok(refused.length > 0);
  for (const { code, err } of refused) {
    assert.equal(code, 3);
    assert.match(err, /^halcyon: shard \d+ has just got another database: try again in a few seconds\n$/);
  }
  await home.sql`update shard_map set date_created = clock_timestamp() - interval '1 day'`;
  assert.deepEqual([(await create()).code, (await create()).code], [0, 0]);
});

test('a new address of a database replaces the one in the map, and raises its version', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const secretKey = randomBytes(32);
  await open(t, settingsOf(home, { '0-127': home, '128-255': b }, secretKey));
  const version = await readVersion(home.sql);
  const moved = { url: `${b.url}&application_name=moved` };
  const { databases } = await open(t, settingsOf(home, { '0-127': home, '128-255': moved }, secretKey));
  assert.deepEqual(databases[0]?.address, { kind: 'url', url: moved.url });
  assert.equal(await readVersion(home.sql), version + 1);
  const mapped = await open(t, settingsOf(home, {}, secretKey));
  assert.deepEqual(mapped.databases[0]?.address, { kind: 'url', url: moved.url });
});

test('a map that lacks the owner of a shard is refused', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const env = settingsOf(home, { '0-127': home, '128-255': b });
  await open(t, env);
  await home.sql`delete from shard_owner where shard < 12`;
  const { SHARD_DATABASES: _, ...without } = env;
  for (const one of [env, without]) assert.match(await refusal(t, one), /No database owns the shards 0-11: /);
  assert.equal(formatShards(shardsOf(await readMap(home.sql), 1)), '128-255', 'the others keep their owners');
});

test('a database without shards leaves the map, unless a move needs it', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const secretKey = randomBytes(32);
  await open(t, settingsOf(home, { '0-127': home, '128-255': b }, secretKey));
  await home.sql`update shard_owner set database = 0`;
  await home.sql`
    insert into shard_move (shards, source, target, date_switched, date_ended) values ('{128}', 1, 0, now(), now())`;
  const namesAfterStart = async (): Promise<string[]> => {
    const { databases } = await open(t, settingsOf(home, { '0-255': home }, secretKey));
    return databases.map(({ name }) => name);
  };
  assert.deepEqual(await namesAfterStart(), [b.name]);
  await home.sql`delete from shard_move`;
  assert.deepEqual(await namesAfterStart(), []);
});

test('an address that no key opens is written again by the setting', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const secretKey = randomBytes(32);
  const env = settingsOf(home, { '0-127': home, '128-255': b }, secretKey);
  await open(t, env);
  await home.sql`update shard_database set address = ${randomBytes(80) as Buffer} where id = 1`;
  assert.match(await refusal(t, settingsOf(home, {}, secretKey)), /cannot be decrypted.*SHARD_DATABASES/);
  await open(t, env);
  await open(t, settingsOf(home, {}, secretKey));
});

test('a database of the map that is down stops neither serve nor deliver, but migrate; its name is logged', async (t) => {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const secretKey = randomBytes(32);
  const down = { url: `postgres://halcyon:password-of-b@127.0.0.1:${await freePort()}/halcyon` };
  const divided = (other: { url: string }) =>
    settingsOf(home, { '0-99': home, '100-199': other, '200-255': c }, secretKey);
  assert.match(
    await refusal(t, divided(down)),
    /127\.0\.0\.1:\d+\/halcyon: PostgreSQL cannot be used.*SHARD_DATABASES/,
  );
  await open(t, divided(b));
  const address = createSealer(secretKey).seal(down.url, 'shard_database:1');
  await home.sql`update shard_database set address = ${address} where id = 1`;
  for (const env of [settingsOf(home, {}, secretKey), divided(down)]) {
    const { databases, entries } = await open(t, env);
    assert.deepEqual(
      databases.map(({ isPrepared }) => isPrepared),
      [false, true],
    );
    const entry = entries.find((line) => line.includes('a database of the map is unavailable')) ?? '';
    assert.ok(entry.includes(`"database":"${b.name}"`), entries.join(''));
    assert.doesNotMatch(entries.join(''), /password-of-b/);
  }
  const { err: status } = await runCommand(['shards', 'status'], settingsOf(home, {}, secretKey));
  assert.match(status, new RegExp(`^halcyon: a database of the map is unavailable[^{]*: ${b.name}: [^\n{]+\n$`));
  const { code, err } = await runCommand(['migrate'], settingsOf(home, {}, secretKey));
  assert.match(err, new RegExp(`^halcyon: ${b.name}: PostgreSQL cannot be used`, 'm'));
  assert.doesNotMatch(err, /password-of-b/);
  assert.equal(code, 3);
});

test('an address that leads to another database than that of the map is refused, and that database is not changed', async (t) => {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const secretKey = randomBytes(32);
  const [stranger, empty] = [withUrl(await testDatabase(t)), withUrl(await emptyDatabase(t))];
  const env = settingsOf(home, {}, secretKey);
  await open(t, settingsOf(home, { '0-99': home, '100-199': b, '200-255': c }, secretKey));
  const [ofHome, ofB] = await Promise.all([home, b].map(({ sql }) => readIdentity(sql)));
  assert.ok(ofHome && ofB);
  const log = createLog('silent');
  const openPools = createPoolOpener(readConfig(env, tmpdir()), { secretKeys: [secretKey], log });
  for (const other of [c, stranger, empty]) {
    const address = createSealer(secretKey).seal(other.url, 'shard_database:1');
    await home.sql`update shard_database set address = ${address} where id = 1`;
    assert.match(await refusal(t, env), new RegExp(`^${b.name}: it is another database than that of the map`));
    // A running process that has waited for the database.
    const pools = openPools({ name: b.name, identity: ofB.identity, url: other.url, home: ofHome.identity });
    await assert.rejects(pools.prepare(), /another database than that of the map/);
    await pools.close();
  }
  assert.equal(await findIdentity(empty.sql), undefined, 'an empty database in the place of a lost one stays empty');
});

test('migrate creates the tables in every database, and continues after a failure', async (t) => {
  const [home, c] = await severalDatabases(t, 2);
  assert.ok(c);
  const b = withUrl(await emptyDatabase(t));
  const down = { url: `postgres://halcyon@127.0.0.1:${await freePort()}/halcyon` };
  const secretKey = randomBytes(32);
  const failed = await runCommand(
    ['migrate'],
    settingsOf(home, { '0-99': home, '100-199': b, '200-255': down }, secretKey),
  );
  assert.equal(failed.code, 3);
  assert.match(failed.err, new RegExp(`^Applying \\d{4}-.* to ${b.name}$`, 'm'));
  const { code, out } = await runCommand(
    ['migrate', '--json'],
    settingsOf(home, { '0-99': home, '100-199': b, '200-255': c }, secretKey),
  );
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(out), {
    applied: [],
    databases: [
      { database: b.name, applied: [] },
      { database: c.name, applied: [] },
    ],
  });
  assert.equal(await leasesOf(b.sql), '100-199');
});

test('rekey seals the secrets of every database and the addresses in the map again', async (t) => {
  const [home, b, c] = await severalDatabases(t, 3);
  assert.ok(b && c);
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  const divided = { '0-99': home, '100-199': b, '200-255': c };
  await open(t, settingsOf(home, divided, old));
  await home.sql`update shard_map set date_created = '-infinity'`;
  const storeId = idOf(2, 150);
  for (const { sql } of [home, b]) await createStore(sql, 150);
  const [id] = await sealWebhooks(b.sql, createSealer(old), { storeId, first: 10, count: 1 });
  const env = { ...settingsOf(home, {}, fresh), HALCYON_SECRET_KEY_OTHER: old.toString('hex') };
  const { code, out, err } = await runCommand(['rekey', '--json'], env);
  assert.equal(code, 0, err);
  assert.equal((JSON.parse(out) as { webhooks: number }).webhooks, 1);
  const [webhook] = await b.sql<{ key: Buffer }[]>`select encryption_key as key from webhook`;
  assert.ok(id !== undefined && webhook !== undefined);
  assert.equal(createSealer(fresh).open(webhook.key, `webhook:${id}`), keyOf(id));
  const { databases } = await open(t, settingsOf(home, {}, fresh));
  assert.deepEqual(
    databases.map(({ address }) => address),
    [b, c].map(({ url }) => ({ kind: 'url', url })),
  );
  for (const { sql } of [home, b, c]) assert.deepEqual(await readSealingKey(sql), keyIdOf(fresh));
});

test('rekey changes nothing while one of the databases is down', async (t) => {
  const [home, b] = await severalDatabases(t, 2);
  assert.ok(b);
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  await open(t, settingsOf(home, { '0-127': home, '128-255': b }, old));
  const url = `postgres://halcyon@127.0.0.1:${await freePort()}/halcyon`;
  const address = createSealer(old).seal(url, 'shard_database:1');
  await home.sql`update shard_database set address = ${address} where id = 1`;
  const env = { ...settingsOf(home, {}, fresh), HALCYON_SECRET_KEY_OTHER: old.toString('hex') };
  const { code, err } = await runCommand(['rekey'], env);
  assert.match(err, new RegExp(`^halcyon: ${b.name}: PostgreSQL cannot be used`, 'm'));
  assert.equal(code, 3);
  assert.deepEqual(await readSealingKey(home.sql), keyIdOf(old));
});
