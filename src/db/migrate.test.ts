import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { emptyDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { compare, migrate, MIGRATIONS, migrationsIn } from './migrate.ts';
import { DatabaseError, openPool } from './pool.ts';

const FIRST = `-- a comment
create table one (n int); insert into one values (1);
create function twice(n int) returns int language sql as $$ select n * 2; $$;`;

const git = async (...args: string[]): Promise<string> =>
  (await promisify(execFile)('git', args, { cwd: MIGRATIONS })).stdout.trim();

/** Returns the text without comments and line breaks. */
const statementsOf = (text: string): string =>
  text
    .replaceAll(/--[^\n]*|\/\*[^]*?\*\//g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();

/** Undefined in an archive of the tree or a shallow clone. */
const isShallow = await git('rev-parse', '--is-shallow-repository').catch(() => 'true');

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

test('a database newer than the code is refused', async (t) => {
  const { sql, folder } = await start(t, { '0001-one.sql': FIRST, '0002-two.sql': 'select 1' });
  await migrate(sql, folder);
  await rm(join(folder, '0002-two.sql'));
  await assert.rejects(migrate(sql, folder), refusal(/newer .*0002-two\.sql/));
});

test(
  'a database of any commit is accepted if only comments have changed since',
  { skip: isShallow === 'true' },
  async (t) => {
    const migrations = await migrationsIn(MIGRATIONS);
    let texts = 0;
    for (const { version, name, text } of migrations) {
      for (const commit of (await git('log', '--format=%H', '--diff-filter=AM', '--', name)).split('\n')) {
        const { stdout: earlier } = await promisify(execFile)('git', ['show', `${commit}:./${name}`], {
          cwd: MIGRATIONS,
        });
        if (statementsOf(earlier) !== statementsOf(text)) continue;
        texts += 1;
        const applied = [{ version, name, hash: createHash('sha256').update(earlier).digest('hex') }];
        assert.deepEqual(compare(migrations, applied).changed, [], `${name} of ${commit}`);
      }
    }
    assert.ok(texts > migrations.length);
    t.diagnostic(`${texts} texts of ${migrations.length} migrations`);
  },
);

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
