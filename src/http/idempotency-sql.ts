/** SQL of the table idempotency_key. */
import type { Queryable } from '#db/pool.ts';

/**
 * Claims the key, or an expired one; returns false if it is already claimed. Waits at the primary key while another
 * transaction claims it, so a concurrent repetition finds either the stored response or a free key.
 */
export async function claimKey(
  sql: Queryable,
  {
    scope,
    shard,
    bodyHash,
    now,
    staleAt,
  }: { scope: Buffer; shard: number | null; bodyHash: Buffer; now: Date; staleAt: Date },
): Promise<boolean> {
  const rows = await sql`
    insert into idempotency_key as k (scope, shard, body_hash, date_created)
    values (${scope}, ${shard}, ${bodyHash}, ${now})
    on conflict (scope) do update
      set shard = excluded.shard, body_hash = excluded.body_hash, answer = null, date_created = excluded.date_created
    where k.date_created <= ${staleAt}
    returning scope`;
  return rows.length === 1;
}

export async function storeResponse(sql: Queryable, scope: Buffer, answer: Buffer): Promise<void> {
  await sql`update idempotency_key set answer = ${answer} where scope = ${scope}`;
}

export type StoredResponse = { bodyHash: Buffer; answer: Buffer };

export async function findResponse(sql: Queryable, scope: Buffer, staleAt: Date): Promise<StoredResponse | undefined> {
  const [row] = await sql<StoredResponse[]>`
    select body_hash as "bodyHash", answer from idempotency_key
    where scope = ${scope} and answer is not null and date_created > ${staleAt}`;
  return row;
}
