/** Prepares a database beside the home database: checks its server, applies the migrations, and checks its key. */
import type { Keys } from '#core/keys.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { DatabaseError, type Queryable, type Sql } from '#db/pool.ts';
import { checkSealingKey } from '#db/seal.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { checkServer, UnusableError } from '#db/usable.ts';
import { findIdentity, hasWorkers, readIdentity, type Identity } from './map-sql.ts';

export type Preparation = {
  /** The name of the database, for messages. */
  name: string;
  /** The identity of the home database. */
  home: string;
  /** The identity of the database in the map; absent if it is not in the map yet. */
  identity?: string | undefined;
  keys: Keys;
  /** Describes the source of the keys. */
  keysFrom: string;
  /** Where the address is from, for messages; `SHARD_DATABASES` by default. */
  setting?: string;
  onMigration?: ((name: string, database: string) => void) | undefined;
  /** Returns whether a database has accounts, which only home databases have. */
  hasUsers: (sql: Queryable) => Promise<boolean>;
};

export type Prepared = { identity: string; applied: readonly string[]; isKeyAdopted: boolean };

/** Adds the name of the database to an error that an operator can fix. */
function withName(name: string, error: unknown, setting = 'SHARD_DATABASES'): unknown {
  if (error instanceof UnusableError) {
    const remedy = error.remedy.replaceAll('DATABASE_URL', setting);
    return new UnusableError(`${name}: ${error.problem}`, remedy, error.cause);
  }
  return error instanceof DatabaseError
    ? new DatabaseError(`${name}: ${error.message}`, { cause: error.cause })
    : error;
}

/** Returns whether a database could not be prepared because it is unavailable; it can be prepared when it returns. */
export function isDown(error: unknown): boolean {
  return isUnavailable(error) || (error instanceof DatabaseError && isUnavailable(error.cause));
}

/** Returns the identity of a database that a setting names; undefined if Halcyon does not know it. */
export async function identify(direct: Sql, name: string, setting?: string): Promise<string | undefined> {
  try {
    await checkServer(direct);
    return (await findIdentity(direct))?.identity;
  } catch (error) {
    throw withName(name, error, setting);
  }
}

/** Throws a `DatabaseError` if the database is in the map of another home database, or is not the one of the map. */
function requireMember(found: Identity | undefined, { home, identity }: Preparation): void {
  const isFree = found === undefined || found.home === null;
  if (!isFree && found.home !== home)
    throw new DatabaseError('it belongs to the map of another home database: use a new database');
  if (identity !== undefined && (isFree || found.identity !== identity))
    throw new DatabaseError(
      'it is another database than that of the map of shards: restore the database, or correct its address by SHARD_DATABASES',
    );
}

/** Throws a `DatabaseError` if a database that is in no map is the home of another installation, whose worker would deliver the shards too. */
async function requireUnused(
  direct: Sql,
  found: Identity | undefined,
  { home, hasUsers }: Pick<Preparation, 'home' | 'hasUsers'>,
): Promise<void> {
  if (found === undefined || found.home !== null || found.identity === home) return;
  const use = (await hasWorkers(direct)) ? 'a worker runs on it' : (await hasUsers(direct)) && 'it has users';
  if (use !== false) throw new DatabaseError(`it is the database of another installation (${use}): use a new database`);
}

/**
 * Throws a `DatabaseError` if the database cannot be used. One of another home database, and one that is not the database of the map,
 * is not changed: an empty database in the place of a lost one must not be taken for it. Can be repeated. `direct` leads to PostgreSQL
 * itself.
 */
export async function prepareDatabase(direct: Sql, preparation: Preparation): Promise<Prepared> {
  const { name, keys, keysFrom, setting, onMigration } = preparation;
  try {
    await checkServer(direct);
    const found = await findIdentity(direct);
    requireMember(found, preparation);
    await requireUnused(direct, found, preparation);
    const { applied } = await migrate(direct, MIGRATIONS, (migration) => onMigration?.(migration, name));
    const isKeyAdopted = await checkSealingKey(direct, { keys, from: keysFrom });
    const { identity } = await readIdentity(direct);
    return { identity, applied, isKeyAdopted };
  } catch (error) {
    throw withName(name, error, setting);
  }
}
