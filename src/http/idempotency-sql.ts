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

/** Counts the rows whose response is sealed with another key; the key id follows the first byte of the envelope. */
export async function countSealedWithOtherKey(sql: Queryable, keyId: Buffer): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*) as n from idempotency_key where substring(answer from 2 for 4) <> ${keyId}`;
  return row?.n ?? 0;
}

export async function listSealedWithOtherKey(
  sql: Queryable,
  { keyId, after, limitRows }: { keyId: Buffer; after: Buffer; limitRows: number },
): Promise<{ scope: Buffer; answer: Buffer }[]> {
  return sql<{ scope: Buffer; answer: Buffer }[]>`
  select scope, answer from idempotency_key
  where scope > ${after} and substring(answer from 2 for 4) <> ${keyId}
  order by scope limit ${limitRows}`;
}

type ResealedResponse = { scope: Buffer; before: Buffer | null; after: Buffer | null };

/**
 * Replaces responses that are unchanged since they were read, skips locked rows, and returns the scopes that were
 * written.
 */
export async function replaceResponses(sql: Queryable, rows: readonly ResealedResponse[]): Promise<Buffer[]> {
  const written = await sql<{ scope: Buffer }[]>`
    with free as (
      select k.scope, r.after
      from unnest(
        ${rows.map(({ scope }) => scope)}::bytea[], ${rows.map(({ before }) => before)}::bytea[],
        ${rows.map(({ after }) => after)}::bytea[]
      ) as r (scope, before, after)
      join idempotency_key k on k.scope = r.scope
      where k.answer = r.before
      for no key update of k skip locked
    )
    update idempotency_key k set answer = free.after from free where k.scope = free.scope
    returning k.scope`;
  return written.map(({ scope }) => scope);
}
