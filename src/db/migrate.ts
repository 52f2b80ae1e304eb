/** Applies the numbered migration files, each in its own transaction, one process at a time, and compares a schema with theirs. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LOCKS, underLock } from './advisory-lock.ts';
import { DatabaseError, type Queryable, type Sql } from './pool.ts';
import { codeOf } from './unavailable.ts';
import { checkDatabaseText, UnusableError } from './usable.ts';

type Migration = { version: number; name: string; hash: string; text: string };
export type Applied = Pick<Migration, 'version' | 'name' | 'hash'>;
/** What a transaction does in order that a migration is applied. */
type Step = Applied & { run: (sql: Queryable) => Promise<unknown> };

/** The folder of the migrations of this version. */
export const MIGRATIONS = join(import.meta.dirname, '../../migrations');

/**
 * How long a statement of a migration waits for a lock; each attempt waits twice as long as the one before, up to the maximum. That
 * is less than the second after which PostgreSQL cancels one of two deadlocked transactions (`deadlock_timeout`), so that it is the
 * migration that gives up, and not a request of a running process. Meanwhile other requests wait behind the migration.
 */
const LOCK_TIMEOUT_MS = { first: 100, max: 800 } as const;
/** How long a migration is repeated while other transactions keep its tables locked. */
const PATIENCE_MS = 600_000;
/** SQLSTATEs of a lock that was not available, and of a deadlock. */
const LOCKED: ReadonlySet<unknown> = new Set(['55P03', '40P01']);

/**
 * The SQL that gives a database of the last replaced migration the schema of the first file, and the commit whose `halcyon migrate` brings
 * older databases there.
 */
const ADOPTION = { file: 'adopt-0037.sql', commit: '5de66331' } as const;
const DIFFERENCES_SHOWN = 5;

/** Returns the migrations of a folder in their order. */
export async function migrationsIn(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8');
      const hash = createHash('sha256').update(text).digest('hex');
      return { version: Number(name.slice(0, 4)), name, hash, text };
    }),
  );
}

/** Returns the numbers of the migrations in a folder. */
export async function versionsOf(folder: string): Promise<number[]> {
  return (await migrationsIn(folder)).map(({ version }) => version);
}

/**
 * Compares the files with the applied migrations: `newer` are applied without a file, `changed` differ from the file, `missing`
 * are not applied yet, and `replaced` are those before the first file, which has their schema.
 */
export function compare(migrations: readonly Migration[], applied: readonly Applied[]) {
  const files = new Map(migrations.map((file) => [file.version, file]));
  const done = new Set(applied.map(({ version }) => version));
  const first = migrations[0]?.version ?? 0;
  return {
    newer: applied.filter(({ version }) => version >= first && !files.has(version)),
    changed: applied.filter(({ version, hash }) => files.has(version) && files.get(version)?.hash !== hash),
    missing: migrations.filter(({ version }) => !done.has(version)),
    replaced: applied.filter(({ version }) => version < first),
  };
}

/** Returns what is wrong with a database whose last migration is not the one before the first file, and the remedy. */
export function findTooOld(migrations: readonly Migration[], replaced: readonly Applied[]) {
  const [first, last] = [migrations[0], replaced.at(-1)];
  if (first === undefined || last === undefined || last.version === first.version - 1) return undefined;
  return {
    message: `The database has the older schema of ${last.name}`,
    remedy: `Run "halcyon migrate" of commit ${ADOPTION.commit} before this version`,
  };
}

/** Returns the migrations to apply; throws a `DatabaseError` if the database does not fit to the files. */
function requireCompatible(migrations: readonly Migration[], applied: readonly Applied[]) {
  if (new Set(migrations.map(({ version }) => version)).size < migrations.length)
    throw new DatabaseError('Two migrations have the same number: rename one');
  const { newer, changed, missing, replaced } = compare(migrations, applied);
  const [ahead, edited, tooOld] = [newer[0], changed[0], findTooOld(migrations, replaced)];
  if (ahead !== undefined)
    throw new DatabaseError(
      `The database is newer than this code: it has ${ahead.name}. Start the newer Halcyon instead`,
    );
  if (edited !== undefined)
    throw new DatabaseError(
      `The migration ${edited.name} was changed after it was applied: restore the file, and put the change into a new one`,
    );
  if (tooOld !== undefined) throw new UnusableError(tooOld.message, tooOld.remedy);
  return { missing, isAdopted: replaced.length > 0 };
}

/** Returns the schema that a migration makes in an empty database. Needs a transaction, and leaves nothing in it. */
async function schemaOf(sql: Queryable, { text }: Migration): Promise<ReadonlyMap<string, string>> {
  await sql`savepoint expected`;
  await sql.unsafe(`create schema halcyon_expected; set local search_path to halcyon_expected; ${text}`);
  const schema = await describeSchema(sql);
  await sql`rollback to savepoint expected`;
  return schema;
}

/** Returns the first migration as one that gives a database of the replaced migrations the same schema, or fails if it cannot. */
async function adoptionBy(first: Migration, folder: string): Promise<Step> {
  const text = await readFile(join(folder, ADOPTION.file), 'utf8');
  const run = async (sql: Queryable): Promise<void> => {
    await sql.unsafe(text);
    const differences = differencesOf(await schemaOf(sql, first), await describeSchema(sql));
    if (differences.length > 0)
      throw new DatabaseError(
        `The schema of the database is not that of ${first.name}, and nothing was changed: ` +
          differences.slice(0, DIFFERENCES_SHOWN).join('; ') +
          (differences.length > DIFFERENCES_SHOWN ? `; and ${differences.length - DIFFERENCES_SHOWN} others` : ''),
      );
    await sql`delete from schema_migration`;
  };
  return { ...first, run };
}

const CREATED = /^create (?:unlogged )?table (?:if not exists )?(\w+)/gm;

/** Throws a `DatabaseError` if the first migrations cannot be applied: tables of another program have these names, or a privilege is missing. */
async function requireFree(sql: Queryable, migrations: readonly Migration[]): Promise<void> {
  const names = new Set(migrations.flatMap(({ text }) => Array.from(text.matchAll(CREATED), ([, name = '']) => name)));
  const [row] = await sql<{ isBegun: boolean; mayCreate: boolean; names: string[]; role: string; schema: string }[]>`
    select to_regclass('schema_migration') is not null as "isBegun",
      has_schema_privilege(current_schema(), 'create') as "mayCreate",
      array(
        select relname::text from pg_class
        where relnamespace = current_schema()::regnamespace and relname = any (${[...names]}) order by relname
      ) as names,
      quote_ident(current_user) as role, quote_ident(current_schema()) as schema`;
  if (row === undefined || row.isBegun) return;
  if (row.names.length > 0)
    throw new UnusableError(
      `The schema ${row.schema} of the database has tables of another program (${row.names.slice(0, 3).join(', ')})`,
      'Create a database for Halcyon alone, or a schema, and put that first in search_path',
    );
  if (!row.mayCreate)
    throw new UnusableError(
      `The user ${row.role} may not create tables in the schema ${row.schema}`,
      `In psql: grant create on schema ${row.schema} to ${row.role}`,
    );
}

/** Throws if shards move: the databases of a move need the same tables while rows are copied. */
async function requireNoMove(sql: Queryable): Promise<void> {
  const [table] = await sql<{ name: string | null }[]>`select to_regclass('shard_move')::text as name`;
  if (!table?.name) return;
  const moves = await sql`select from shard_move where date_ended is null limit 1`;
  if (moves.length > 0)
    throw new UnusableError(
      'Shards are being moved to another database',
      'End the move before the migration: see "halcyon shards status" of the version before',
    );
}

/** Applies one migration; false if it was rolled back because a table stayed locked for `lockMs`. */
async function isApplied(sql: Queryable, { version, name, hash, run }: Step, lockMs: number): Promise<boolean> {
  // A reserved connection has no `begin` method.
  await sql`begin`;
  try {
    await sql`select set_config('lock_timeout', ${String(lockMs)}, true)`;
    await run(sql);
    await sql`insert into schema_migration (version, name, hash, date_applied) values (${version}, ${name}, ${hash}, now())`;
    await sql`commit`;
    return true;
  } catch (error) {
    // Fails only if the connection is lost, and the transaction with it; the first error is the one to report.
    await sql`rollback`.catch(() => {});
    if (LOCKED.has(codeOf(error))) return false;
    if (error instanceof DatabaseError) throw error;
    throw new DatabaseError(`The migration ${name} failed: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

async function apply(sql: Queryable, migration: Step, patienceMs: number): Promise<void> {
  const since = performance.now();
  for (let lockMs: number = LOCK_TIMEOUT_MS.first; ; lockMs = Math.min(2 * lockMs, LOCK_TIMEOUT_MS.max)) {
    if (await isApplied(sql, migration, lockMs)) return;
    if (performance.now() - since > patienceMs)
      throw new DatabaseError(
        `The migration ${migration.name} was rolled back: another transaction kept one of its tables locked for ` +
          `${Math.round(patienceMs / 1_000)} s. Find it in pg_stat_activity (the smallest xact_start), end it, and start again`,
      );
    // The requests that waited behind the migration go first.
    await delay(lockMs);
  }
}

/**
 * Applies the missing migrations of `folder` and returns their file names; adopts a database of the migrations that the first one
 * replaces. Throws a `DatabaseError` if the database is newer than the code, too old or has another encoding than UTF8, an applied file was changed, or a file fails or finds a table locked for `patienceMs`
 * (it is then rolled back). Calls `onBegin` before each migration, because one may take minutes.
 */
export async function migrate(
  sql: Sql,
  folder: string,
  onBegin: (name: string) => void = () => {},
  patienceMs = PATIENCE_MS,
): Promise<{ applied: string[] }> {
  const migrations = await migrationsIn(folder);
  return underLock(sql, LOCKS.migrations, async (connection) => {
    await checkDatabaseText(connection);
    await requireFree(connection, migrations);
    await connection`
      create table if not exists schema_migration (
        version integer primary key, name text not null, hash text not null, date_applied timestamptz not null
      )`;
    const applied = await connection<Applied[]>`select version, name, hash from schema_migration order by version`;
    const { missing, isAdopted } = requireCompatible(migrations, applied);
    if (missing.length > 0) await requireNoMove(connection);
    for (const [index, migration] of missing.entries()) {
      onBegin(migration.name);
      const step =
        isAdopted && index === 0
          ? await adoptionBy(migration, folder)
          : { ...migration, run: (tx: Queryable) => tx.unsafe(migration.text) };
      await apply(connection, step, patienceMs);
    }
    return { applied: missing.map(({ name }) => name) };
  });
}

/** Relations without partitions: [name, kind and options]. */
const relations = (sql: Queryable) => sql<{ oid: number; name: string; partition: string; options: string }[]>`
  select c.oid::int as oid, c.relname::text as name,
    coalesce(' partition by ' || pg_get_partkeydef(c.oid), '') as partition,
    coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', '')
      || case c.relreplident when 'f' then ' replica identity full' else '' end as options
  from pg_class c
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  order by c.relname`;

const columns = (sql: Queryable, table: number) => sql<{ line: string }[]>`
  select format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
    || case when a.attcollation <> t.typcollation then format(' collate %I', c.collname) else '' end
    || case when a.attgenerated = 's' then ' generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
         when d.adbin is not null then ' default ' || pg_get_expr(d.adbin, d.adrelid) else '' end
    || case a.attidentity when 'a' then ' generated always as identity' when 'd' then ' generated by default as identity' else '' end
    || case when a.attnotnull then ' not null' else '' end as line
  from pg_attribute a
  join pg_type t on t.oid = a.atttypid
  left join pg_collation c on c.oid = a.attcollation
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = ${table} and a.attnum > 0 and not a.attisdropped order by a.attnum`;

/** Without NOT NULL, which PostgreSQL 18 lists here and older ones do not. */
const constraints = (sql: Queryable, table: number) => sql<{ line: string }[]>`
  select format('constraint %I %s', conname, pg_get_constraintdef(oid)) as line
  from pg_constraint where conrelid = ${table} and contype <> 'n' order by conname`;

/** Indexes, except those of constraints. */
const indexes = (sql: Queryable, table: number) => sql<{ line: string }[]>`
  select pg_get_indexdef(i.indexrelid) as line from pg_index i
  where i.indrelid = ${table} and not exists (select from pg_constraint where conindid = i.indexrelid and contype in ('p', 'u', 'x'))
  order by i.indexrelid::regclass::text`;

type Definition = { name: string; text: string };

const sequences = (sql: Queryable) => sql<Definition[]>`
  select 'sequence ' || sequencename as name,
    format('create sequence %I as %s increment by %s minvalue %s maxvalue %s start %s cache %s%s;', sequencename, data_type,
    increment_by, min_value, max_value, start_value, cache_size, case when cycle then ' cycle' else '' end) as text
  from pg_sequences where schemaname = current_schema() and sequencename !~ '_d[0-9]+$' order by sequencename`;

const views = (sql: Queryable) => sql<Definition[]>`
  select 'view ' || viewname as name, format('create view %I as%s%s', viewname, chr(10), definition) as text
  from pg_views where schemaname = current_schema() order by viewname`;

/** Functions and triggers. */
const routines = (sql: Queryable) => sql<Definition[]>`
  select 'function ' || proname as name, pg_get_functiondef(oid) || ';' as text
  from pg_proc where pronamespace = current_schema()::regnamespace and prokind = 'f'
  union all
  select format('trigger %s on %s', t.tgname, c.relname), pg_get_triggerdef(t.oid) || ';'
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = current_schema()::regnamespace and not t.tgisinternal and not c.relispartition
  order by 2`;

/**
 * Returns the definition of each object in the current schema by its name, such as `table store`. The definition of a table has its
 * indexes. Without day partitions, and independent of how the schema was migrated and of its name.
 */
export async function describeSchema(sql: Queryable): Promise<ReadonlyMap<string, string>> {
  const [at] = await sql<{ schema: string }[]>`select quote_ident(current_schema()) as schema`;
  const tables: Definition[] = [];
  for (const { oid, name, partition, options } of await relations(sql)) {
    const members = [...(await columns(sql, oid)), ...(await constraints(sql, oid))].map(({ line }) => `  ${line}`);
    const made = (await indexes(sql, oid)).map(({ line }) => `\n${line};`).join('');
    const text = `create table ${name} (\n${members.join(',\n')}\n)${partition}${options};${made}`;
    tables.push({ name: `table ${name}`, text });
  }
  const all = [...(await sequences(sql)), ...tables, ...(await views(sql)), ...(await routines(sql))];
  return new Map(all.map(({ name, text }) => [name, text.replaceAll(`${at?.schema}.`, '')]));
}

const linesOf = (text: string | undefined): string[] =>
  text?.split('\n').map((line) => line.replace(/,$/, '').trim()) ?? [];

/**
 * Returns what an actual schema lacks of the expected one, or has beside it in the same objects, one line each. Other objects do not
 * matter.
 */
function differencesOf(expected: ReadonlyMap<string, string>, actual: ReadonlyMap<string, string>): string[] {
  return [...expected].flatMap(([name, text]) => {
    const found = actual.get(name);
    if (found === text) return [];
    if (found === undefined) return [`${name} is missing`];
    const [wanted, had] = [linesOf(text), linesOf(found)];
    const lacks = wanted.filter((line) => !had.includes(line)).map((line) => `${name} lacks "${line}"`);
    const extra = had.filter((line) => !wanted.includes(line)).map((line) => `${name} has "${line}"`);
    const lines = lacks.concat(extra);
    return lines.length > 0 ? lines : [`${name} has another order`];
  });
}
