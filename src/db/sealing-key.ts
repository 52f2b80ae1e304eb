/** Which key a database is sealed with. */
import type { Keys } from '#core/keys.ts';
import { DatabaseError, type Queryable, type Sql } from './pool.ts';
import { keyIdOf } from './seal.ts';

/** The id of the key that the database is sealed with; undefined before the first process. */
export const readSealingKey = async (sql: Queryable): Promise<Buffer | undefined> => {
  const [row] = await sql<{ keyId: Buffer }[]>`select key_id as "keyId" from sealing_key`;
  return row?.keyId;
};

/**
 * Throws a `DatabaseError` where the database, which is migrated, is sealed with none of the keys. The first process that
 * asks decides. `from` is where this process has them, in the words of an operator. Answers whether the database's key is
 * the one that this process seals with: otherwise it waits for a `halcyon rekey`.
 */
export const checkSealingKey = async (sql: Sql, { keys, from }: { keys: Keys; from: string }): Promise<boolean> => {
  const [key, ...others] = keys;
  const id = keyIdOf(key);
  await sql`insert into sealing_key (key_id) values (${id}) on conflict do nothing`;
  const its = await readSealingKey(sql);
  const isIts = (one: Buffer): boolean => its?.equals(keyIdOf(one)) === true;
  if (isIts(key)) return true;
  if (others.some(isIts)) return false;
  throw new DatabaseError(
    `${from} is another key than the secrets in this database are sealed with: bring that one back`,
  );
};

/** From now on no process starts that does not have this key. Called when nothing is sealed with another one any more. */
export const adoptSealingKey = async (sql: Sql, key: Buffer): Promise<void> => {
  await sql`update sealing_key set key_id = ${keyIdOf(key)}`;
};
