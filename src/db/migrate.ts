/**
 * Brings the database to the schema of this code: numbered files, each in a transaction of its own, one process at a time.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type postgres from 'postgres';
import { DatabaseError, type Sql } from './pool.ts';

type Migration = { version: number; name: string; hash: string; text: string };
export type Applied = Pick<Migration, 'version' | 'name' | 'hash'>;

/** Where the migrations of this code stand. */
export const MIGRATIONS = join(import.meta.dirname, '../../migrations');

/** Any number would do; it only has to be the same in every process. Locks of `partitions.ts` differ. */
const LOCK = 7_209_001;

/** What stands in the folder, in its order. */
export const migrationsIn = async (folder: string): Promise<Migration[]> => {
  const names = (await readdir(folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8');
      const hash = createHash('sha256').update(text).digest('hex');
      return { version: Number(name.slice(0, 4)), name, hash, text };
    }),
  );
};

/** The numbers of the migrations in a folder. */
export const versionsOf = async (folder: string): Promise<number[]> =>
  (await migrationsIn(folder)).map(({ version }) => version);

/**
 * What stands between the files and the database: `newer` is applied and no file, `changed` stands otherwise in its file than it was
 * applied, `missing` is not applied yet.
 */
export const compare = (migrations: readonly Migration[], applied: readonly Applied[]) => {
  const files = new Map(migrations.map((file) => [file.version, file]));
  const done = new Set(applied.map(({ version }) => version));
  return {
    newer: applied.filter(({ version }) => !files.has(version)),
    changed: applied.filter(({ version, hash }) => files.has(version) && files.get(version)?.hash !== hash),
    missing: migrations.filter(({ version }) => !done.has(version)),
  };
};

/** What is to be applied; throws a `DatabaseError` where nothing may be. */
const requireOurs = (migrations: readonly Migration[], applied: readonly Applied[]): Migration[] => {
  if (new Set(migrations.map(({ version }) => version)).size < migrations.length)
    throw new DatabaseError('Two migrations have the same number: rename one');
  const { newer, changed, missing } = compare(migrations, applied);
  const [ahead, edited] = [newer[0], changed[0]];
  if (ahead !== undefined)
    throw new DatabaseError(
      `The database is newer than this code: it has ${ahead.name}. Start the newer Halcyon instead`,
    );
  if (edited !== undefined)
    throw new DatabaseError(
      `The migration ${edited.name} was changed after it was applied: restore the file, and put the change into a new one`,
    );
  return missing;
};

const apply = async (sql: postgres.ReservedSql, { version, name, hash, text }: Migration): Promise<void> => {
  // `simple` because a file holds many statements; begin and commit by hand because a reserved connection has no `begin`.
  await sql`begin`;
  try {
    await sql.unsafe(text).simple();
    await sql`insert into schema_migration (version, name, hash, date_applied) values (${version}, ${name}, ${hash}, now())`;
    await sql`commit`;
  } catch (error) {
    // Fails only when the connection is gone, and the transaction with it: the first error is the one to tell.
    await sql`rollback`.catch(() => {});
    throw new DatabaseError(`The migration ${name} failed: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
};

/**
 * Applies what is missing from `folder` and says which files those were. Throws a `DatabaseError` when the database is
 * newer than the code, when an applied file was changed, or when a file fails (it then leaves nothing behind). `onBegin` is told of
 * each before it begins: one may take minutes.
 */
export const migrate = async (
  sql: Sql,
  folder: string,
  onBegin: (name: string) => void = () => {},
): Promise<{ applied: string[] }> => {
  const migrations = await migrationsIn(folder);
  // A session lock has to be taken and released on one connection, and outlive the transactions.
  const connection = await sql.reserve();
  try {
    await connection`select pg_advisory_lock(${LOCK})`;
    await connection`
      create table if not exists schema_migration (
        version integer primary key, name text not null, hash text not null, date_applied timestamptz not null
      )`;
    const done = await connection<Applied[]>`select version, name, hash from schema_migration order by version`;
    const missing = requireOurs(migrations, done);
    for (const migration of missing) {
      onBegin(migration.name);
      await apply(connection, migration);
    }
    return { applied: missing.map(({ name }) => name) };
  } finally {
    // Fails only when the connection is gone, and the lock is gone with it.
    await connection`select pg_advisory_unlock(${LOCK})`.catch(() => {});
    connection.release();
  }
};
