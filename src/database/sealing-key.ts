/** Which key a database is sealed with. */
import { DatabaseError, type Sql } from './pool.ts';
import { keyIdOf } from './seal.ts';

/**
 * Throws a `DatabaseError` where the database, which is migrated, is sealed with another key. The first process that asks
 * decides. `from` is where this process has its key, in the words of an operator.
 */
export const checkSealingKey = async (sql: Sql, { key, from }: { key: Buffer; from: string }): Promise<void> => {
  const id = keyIdOf(key);
  await sql`insert into sealing_key (key_id) values (${id}) on conflict do nothing`;
  const [row] = await sql<{ isOurs: boolean }[]>`select key_id = ${id} as "isOurs" from sealing_key`;
  if (row?.isOurs === true) return;
  throw new DatabaseError(
    `${from} is another key than the secrets in this database are sealed with: bring that one back`,
  );
};
