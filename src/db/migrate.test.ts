import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { copyOfDatabase, emptyDatabase } from '../../test/setup/database.ts';
import { filesAt, hasCommit, readReleases, REPLACED_AT } from '../../test/setup/fleet/older-tree.ts';
import { dumpSchema, SCHEMA_FILE } from '../../test/setup/schema.ts';
import { until } from '../../test/setup/until.ts';
import { migrate, MIGRATIONS, migrationsIn } from './migrate.ts';
import { DatabaseError, openPool, type Sql } from './pool.ts';

const FIRST = `-- a comment
create table one (n int); insert into one values (1);
create function twice(n int) returns int language sql as $$ select n * 2; $$;`;

const ofReplaced = {
  skip: (await hasCommit(REPLACED_AT)) ? false : `the commit ${REPLACED_AT} is not in this repository`,
};

/** An empty database, and a folder of migrations with the given files. */
async function start(t: TestContext, files: Record<string, string>) {
  const { sql, address } = await emptyDatabase(t);
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-migrations-'));
  t.after(() => rm(folder, { recursive: true }));
  const write = async (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return { sql, address, folder, write };
}

const refusal = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof DatabaseError, String(error));
  assert.match(error.message, pattern);
  return true;
};

test('files are applied in order, once, and other files in the folder are ignored', async (t) => {
  const { sql, folder, write } = await start(t, {
    '0002-two.sql': 'insert into one values (2)',
    '0001-one.sql': FIRST,
    'schema.sql': 'nonsense',
  });
  assert.deepEqual(await migrate(sql, folder), { applied: ['0001-one.sql', '0002-two.sql'] });
  assert.deepEqual(await migrate(sql, folder), { applied: [] });
  await write('0003-three.sql', 'insert into one values (3)');
  assert.deepEqual(await migrate(sql, folder), { applied: ['0003-three.sql'] });
  const [row] = await sql<{ ns: number[] }[]>`select array_agg(n order by n) as ns from one`;
  assert.deepEqual(row?.ns, [1, 2, 3]);
});

test('nothing is migrated while shards move, whose tables have to be the same in both databases', async (t) => {
  const moving = 'create table shard_move (date_ended timestamptz); insert into shard_move values (null)';
  const { sql, folder, write } = await start(t, { '0001-one.sql': moving });
  await migrate(sql, folder);
  assert.deepEqual(await migrate(sql, folder), { applied: [] });
  await write('0002-two.sql', 'create table two (n integer)');
  await assert.rejects(migrate(sql, folder), refusal(/^Shards are being moved/));
  await sql`update shard_move set date_ended = now()`;
  assert.deepEqual(await migrate(sql, folder), { applied: ['0002-two.sql'] });
});

test('a database newer than the code is refused', async (t) => {
  const { sql, folder } = await start(t, { '0001-one.sql': FIRST, '0002-two.sql': 'select 1' });
  await migrate(sql, folder);
  await rm(join(folder, '0002-two.sql'));
  await assert.rejects(migrate(sql, folder), refusal(/newer .*0002-two\.sql/));
});

test('a changed file is refused, and nothing after it is applied', async (t) => {
  const { sql, folder, write } = await start(t, { '0001-one.sql': FIRST });
  await migrate(sql, folder);
  await write('0001-one.sql', `${FIRST} `);
  await write('0002-two.sql', 'create table two ()');
  await assert.rejects(migrate(sql, folder), refusal(/0001-one\.sql .*changed/));
  const [row] = await sql`select to_regclass('two') as two`;
  assert.equal(row?.['two'], null);
});

test('nothing is written beside tables of another program with the same names, and others do not matter', async (t) => {
  const { sql, folder } = await start(t, { '0001-first.sql': FIRST, '0002-second.sql': 'create table two (n int);' });
  const contents = () => sql`select relname::text from pg_class where relnamespace = 'public'::regnamespace order by 1`;
  await sql`create table two (sku text)`;
  const before = await contents();
  const foreign = /tables of another program \(two\)\. Create a database for Halcyon alone/;
  await assert.rejects(migrate(sql, folder), refusal(foreign));
  assert.deepEqual(await contents(), before);
  await sql`alter table two rename to other`;
  assert.deepEqual((await migrate(sql, folder)).applied, ['0001-first.sql', '0002-second.sql']);
});

test('two files with one number are refused', async (t) => {
  const { sql, folder } = await start(t, { '0001-one.sql': FIRST, '0001-two.sql': 'select 1' });
  await assert.rejects(migrate(sql, folder), refusal(/same number/));
});

test('a failing file leaves no trace, keeps the ones before, and can be retried', async (t) => {
  const { sql, folder, write } = await start(t, {
    '0001-one.sql': FIRST,
    '0002-two.sql': 'create table two (); select 1/0',
  });
  await assert.rejects(migrate(sql, folder), refusal(/0002-two.sql failed: division by zero/));
  const [row] = await sql`select to_regclass('one')::text as one, to_regclass('two')::text as two`;
  assert.deepEqual({ ...row }, { one: 'one', two: null });
  await write('0002-two.sql', 'create table two ()');
  assert.deepEqual(await migrate(sql, folder), { applied: ['0002-two.sql'] });
});

test('concurrent processes apply each file once', async (t) => {
  const { address, folder } = await start(t, { '0001-one.sql': FIRST, '0002-two.sql': 'create table two ()' });
  const pools = Array.from({ length: 4 }, () => openPool(address, { connections: 1, applicationName: 'test' }));
  const results = await Promise.all(pools.map((pool) => migrate(pool, folder)));
  await Promise.all(pools.map((pool) => pool.end()));
  assert.deepEqual(results.flatMap(({ applied }) => applied).sort(), ['0001-one.sql', '0002-two.sql']);
});

/** Begins a transaction that has read `table`; a migration that alters this table must wait for it. */
async function reading(t: TestContext, address: Parameters<typeof openPool>[0], table: string) {
  const pool = openPool(address, { connections: 1, applicationName: 'test' });
  t.after(() => pool.end());
  const reader = await pool.reserve();
  t.after(() => reader.release());
  await reader`begin`;
  await reader.unsafe(`select from ${table}`);
  return reader;
}

const TWO_TABLES = { '0001-tables.sql': 'create table one (); create table two ();' };
const ALTER_BOTH = 'alter table one add column n int; alter table two add column n int;';

test('a transaction that locks the tables in another order continues, and the migration is repeated', async (t) => {
  const { sql, address, folder, write } = await start(t, TWO_TABLES);
  await migrate(sql, folder);
  await write('0002-alter.sql', ALTER_BOTH);
  const reader = await reading(t, address, 'two');
  // Of two deadlocked transactions PostgreSQL cancels the one that looks first.
  await reader`set local deadlock_timeout = 500`;
  const waiting = () => sql`select from pg_locks where not granted and relation = 'two'::regclass`;
  const goOn = async () => {
    await until(waiting, ({ length }) => length > 0);
    assert.equal((await reader`select from one`).length, 0);
    await reader`commit`;
  };
  const [migrated] = await Promise.all([migrate(sql, folder), goOn()]);
  assert.deepEqual(migrated, { applied: ['0002-alter.sql'] });
});

test('a migration whose table stays locked is rolled back, and the error says what to end', async (t) => {
  const { sql, address, folder, write } = await start(t, TWO_TABLES);
  await migrate(sql, folder);
  await write('0002-alter.sql', ALTER_BOTH);
  const reader = await reading(t, address, 'two');
  const impatient = migrate(sql, folder, () => {}, 0);
  await assert.rejects(impatient, refusal(/0002-alter\.sql was rolled back: .* pg_stat_activity/));
  const [row] =
    await sql`select count(*)::int as n from pg_attribute where attrelid = 'one'::regclass and attname = 'n'`;
  assert.equal(row?.['n'], 0);
  await reader`commit`;
  assert.deepEqual(await migrate(sql, folder), { applied: ['0002-alter.sql'] });
});

test('migrations of a release are unchanged, and each release of the changelog is listed', async () => {
  const releases = await readReleases();
  const changelog = await readFile(join(MIGRATIONS, '../CHANGELOG.md'), 'utf8');
  const headings = Array.from(changelog.matchAll(/^## (v\S+)/gm), ([, version]) => version);
  assert.deepEqual(headings.toReversed(), Object.keys(releases));
  const migrations = await migrationsIn(MIGRATIONS);
  for (const hashes of Object.values(releases))
    assert.deepEqual(
      Object.fromEntries(migrations.slice(0, Object.keys(hashes).length).map(({ name, hash }) => [name, hash])),
      hashes,
    );
});

const ends = cleanups();
let migrated: Promise<{ folder: string; at36: string }> | undefined;

/** Applies the replaced migrations but the last to a database, of which tests get copies: the 36 take a second. */
async function migrateTo36(): Promise<{ folder: string; at36: string }> {
  const folder = join(await filesAt(REPLACED_AT, ['migrations'], ends), 'migrations');
  const earlier = join(folder, '../earlier');
  await cp(folder, earlier, { recursive: true });
  for (const { name, version } of await migrationsIn(earlier)) if (version > 36) await rm(join(earlier, name));
  const { sql, address } = await emptyDatabase(ends);
  await migrate(sql, earlier);
  // A database with connections is not copied.
  await sql.end();
  return { folder, at36: address.database };
}

/** Returns a database with the migrations that one replaces, up to this version: the last or the one before it. */
async function replacedDatabase(t: TestContext, last: 36 | 37): Promise<Sql> {
  const { folder, at36 } = await (migrated ??= migrateTo36());
  const { sql } = await copyOfDatabase(at36, t);
  if (last === 37) await migrate(sql, folder);
  return sql;
}

const listOf = (sql: Sql) => sql<{ name: string }[]>`select name from schema_migration order by version`;

test(
  'a database of the last replaced migration gets the schema and the list of a new one, and keeps its rows',
  ofReplaced,
  async (t) => {
    const sql = await replacedDatabase(t, 37);
    await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (7, 263, 'Alpha', 'alpha.example.com', 'shop@example.com', 'UTC', now(), now())`;
    await sql`
    insert into resource (shard, store_id, type, id, version, modified_at, event_id, time_zone, base_url, body)
    select 7, 263, 'transaction', id, 1, now(), 1, 'UTC', 'https://example.com', '{"customer_id":"Z9"}'
    from unnest(array['b1', 'B1', 'a1']) as r (id)`;
    await sql`
    insert into erased_customer (shard, store_id, id, date_erased, after_type, after_id)
    values (7, 263, 'Z9', now(), 'transaction', 'b1')`;
    const identities = () => sql`select identity from database_identity`;
    const before = [...(await identities())];
    const names = (await migrationsIn(MIGRATIONS)).map(({ name }) => name);
    assert.deepEqual(await migrate(sql, MIGRATIONS), { applied: names });
    assert.equal(await dumpSchema(sql), await readFile(SCHEMA_FILE, 'utf8'));
    assert.deepEqual(
      (await listOf(sql)).map(({ name }) => name),
      names,
    );
    assert.deepEqual([...(await identities())], before);
    const rows = await sql`select id, parent_id as parent from resource order by id`;
    assert.deepEqual(
      [...rows],
      ['B1', 'a1', 'b1'].map((id) => ({ id, parent: 'Z9' })),
    );
    const [search] = await sql`select after_type, after_id from erased_customer`;
    assert.deepEqual({ ...search }, { after_type: '', after_id: '' });
    assert.deepEqual(await migrate(sql, MIGRATIONS), { applied: [] });
  },
);

test('a new database has the rows of one with the replaced migrations', ofReplaced, async (t) => {
  const [replaced, { sql }] = [await replacedDatabase(t, 37), await emptyDatabase(t)];
  await migrate(sql, MIGRATIONS);
  const filled = async (database: Sql) => {
    const tables = await database<{ name: string }[]>`
      select relname::text as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> 'schema_migration' order by 1`;
    const rows = tables.map(({ name }) => database`select ${name} as of, to_json(t) as row from ${database(name)} t`);
    return (await Promise.all(rows)).flat();
  };
  // The identity is random.
  for (const database of [replaced, sql])
    await database`update database_identity set identity = '00000000-0000-0000-0000-000000000000'`;
  assert.deepEqual(await filled(sql), await filled(replaced));
});

test(
  'a database of an older migration is refused with the commit that migrates it, and keeps its list',
  ofReplaced,
  async (t) => {
    const sql = await replacedDatabase(t, 36);
    await assert.rejects(
      migrate(sql, MIGRATIONS),
      refusal(/0036-future-dates\.sql\. Run "halcyon migrate" of commit 5de66331/),
    );
    assert.equal((await listOf(sql)).length, 36);
  },
);

test(
  'a database of the last replaced migration with another schema is refused with what differs',
  ofReplaced,
  async (t) => {
    const sql = await replacedDatabase(t, 37);
    await sql.unsafe(`alter table store add note text; drop index audit_created; drop table outbox_applied;
    create table of_the_operator (n int)`);
    const before = await dumpSchema(sql);
    await assert.rejects(
      migrate(sql, MIGRATIONS),
      refusal(/table audit lacks .*audit_created.*; table outbox_applied is missing; table store has "note text"$/),
    );
    assert.equal(await dumpSchema(sql), before);
    assert.equal((await listOf(sql)).length, 37);
  },
);

test('a database with unencrypted headers or queries is not adopted', ofReplaced, async (t) => {
  const sql = await replacedDatabase(t, 37);
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (7, 263, 'Alpha', 'alpha.example.com', 'shop@example.com', 'UTC', now(), now())`;
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, events, is_active, headers, retry_profile, date_created,
      date_modified)
    values (7, 519, 263, 'hook', 'partner_automation', '2', 'https://example.com/?token=abc', '{}', false, '{}', 'long', now(), now())`;
  await assert.rejects(migrate(sql, MIGRATIONS), refusal(/unencrypted .* commit 5de66331/));
  assert.equal((await listOf(sql)).length, 37);
});
