/** The statements by which the keys of webhooks are sealed anew. */
import type { Queryable } from '#db/pool.ts';

/** Both columns are sealed to the webhook. */
export type SealedKeys = { shard: number; id: number; key: Buffer | null; next: Buffer | null };

/** The id of the key stands behind the first byte of an envelope; null where there is no envelope, which is no difference. */
const isSealedOtherwise = (sql: Queryable, keyId: Buffer) => sql`
  (substring(w.encryption_key from 2 for 4) <> ${keyId} or substring(w.next_encryption_key from 2 for 4) <> ${keyId})`;

export const countSealedOtherwise = async (sql: Queryable, keyId: Buffer): Promise<number> => {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from webhook w where ${isSealedOtherwise(sql, keyId)}`;
  return row?.n ?? 0;
};

export const listSealedOtherwise = async (
  sql: Queryable,
  asked: { keyId: Buffer; after: { shard: number; id: number }; limitRows: number },
): Promise<SealedKeys[]> => sql<SealedKeys[]>`
  select w.shard, w.id, w.encryption_key as key, w.next_encryption_key as next
  from webhook w
  where (w.shard, w.id) > (${asked.after.shard}::smallint, ${asked.after.id}::bigint)
    and ${isSealedOtherwise(sql, asked.keyId)}
  order by w.shard, w.id limit ${asked.limitRows}`;

type Renewed = SealedKeys & { keyAfter: Buffer | null; nextAfter: Buffer | null };

/**
 * Where the row still has the envelopes that were read; one that somebody else holds is passed over instead of waited for.
 * Revision and date stay, because the webhook is the same.
 */
export const renewKeys = async (sql: Queryable, rows: readonly Renewed[]): Promise<number[]> => {
  const written = await sql<{ id: number }[]>`
    with free as (
      select w.shard, w.id, r.key_after, r.next_after
      from unnest(
        ${rows.map(({ shard }) => shard)}::smallint[], ${rows.map(({ id }) => id)}::bigint[],
        ${rows.map(({ key }) => key)}::bytea[], ${rows.map(({ next }) => next)}::bytea[],
        ${rows.map(({ keyAfter }) => keyAfter)}::bytea[], ${rows.map(({ nextAfter }) => nextAfter)}::bytea[]
      ) as r (shard, id, key_before, next_before, key_after, next_after)
      join webhook w on w.shard = r.shard and w.id = r.id
      where w.encryption_key is not distinct from r.key_before
        and w.next_encryption_key is not distinct from r.next_before
      for no key update of w skip locked
    )
    update webhook w set encryption_key = free.key_after, next_encryption_key = free.next_after
    from free where w.shard = free.shard and w.id = free.id
    returning w.id`;
  return written.map(({ id }) => id);
};
