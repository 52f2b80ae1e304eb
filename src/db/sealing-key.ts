/** Stores the id of the key that a database is sealed with, and checks it at a start. */
import type { Keys } from '#core/keys.ts';
import { DatabaseError, type Queryable, type Sql } from './pool.ts';
import { keyIdOf } from './seal.ts';

/** Returns the id of the key that the database is sealed with; undefined before the first start. */
export async function readSealingKey(sql: Queryable): Promise<Buffer | undefined> {
  const [row] = await sql<{ keyId: Buffer }[]>`select key_id as "keyId" from sealing_key`;
  return row?.keyId;
}

/**
 * Returns whether the migrated database is sealed with the first key; false if it is another of the keys, until `halcyon rekey`
 * has run. Throws a `DatabaseError` if it is none of them; the first process to check sets the key of the database. `from`
 * describes the source of the keys to an operator.
 */
export async function checkSealingKey(sql: Sql, { keys, from }: { keys: Keys; from: string }): Promise<boolean> {
  const [key, ...others] = keys;
  const id = keyIdOf(key);
  await sql`insert into sealing_key (key_id) values (${id}) on conflict do nothing`;
  const databaseKeyId = await readSealingKey(sql);
  const isDatabaseKey = (one: Buffer): boolean => databaseKeyId?.equals(keyIdOf(one)) === true;
  if (isDatabaseKey(key)) return true;
  if (others.some(isDatabaseKey)) return false;
  throw new DatabaseError(
    `${from} is another key than the secrets in this database are sealed with: restore the original key`,
  );
}

/** Makes this key the key of the database, so that no process without it starts. Requires that all secrets are sealed with it. */
export async function adoptSealingKey(sql: Sql, key: Buffer): Promise<void> {
  await sql`update sealing_key set key_id = ${keyIdOf(key)}`;
}
