/** The statements of idempotency keys: the table idempotency_key is written here and nowhere else. */
import type { Queryable } from '#database/pool.ts';

/**
 * Takes the key, or one that has had its time; false where somebody has it already. While another transaction is about to
 * take it, this waits for that one's end at the primary key: so a concurrent repetition finds the answer, or the key free.
 */
export const claimKey = async (
  sql: Queryable,
  { scope, bodyHash, now, staleAt }: { scope: Buffer; bodyHash: Buffer; now: Date; staleAt: Date },
): Promise<boolean> => {
  const rows = await sql`
    insert into idempotency_key as k (scope, body_hash, date_created) values (${scope}, ${bodyHash}, ${now})
    on conflict (scope) do update set body_hash = excluded.body_hash, answer = null, date_created = excluded.date_created
    where k.date_created <= ${staleAt}
    returning scope`;
  return rows.length === 1;
};

export const keepAnswer = async (sql: Queryable, scope: Buffer, answer: Buffer): Promise<void> => {
  await sql`update idempotency_key set answer = ${answer} where scope = ${scope}`;
};

export type Kept = { bodyHash: Buffer; answer: Buffer };

export const findAnswer = async (sql: Queryable, scope: Buffer, staleAt: Date): Promise<Kept | undefined> => {
  const [row] = await sql<Kept[]>`
    select body_hash as "bodyHash", answer from idempotency_key
    where scope = ${scope} and answer is not null and date_created > ${staleAt}`;
  return row;
};

export const purgeKeys = async (sql: Queryable, limit: number, staleAt: Date): Promise<number> => {
  const { count } = await sql`
    delete from idempotency_key where scope in (
      select scope from idempotency_key where date_created <= ${staleAt}
      order by date_created limit ${limit} for update skip locked
    )`;
  return count;
};
