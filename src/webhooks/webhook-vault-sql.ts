/** The statements that reseal the secrets of webhooks, and those of their past versions. */
import type { Queryable } from '#db/pool.ts';

/** The sealed columns of a webhook; each is bound to its id. */
export type Sealed = { shard: number; id: number; key: Buffer | null; next: Buffer | null; request: Buffer | null };

/** Compares the key id, bytes 2–5 of an envelope. A missing envelope compares as null and does not match. */
const isSealedWithOtherKey = (sql: Queryable, keyId: Buffer) => sql`
  (substring(w.encryption_key from 2 for 4) <> ${keyId} or substring(w.next_encryption_key from 2 for 4) <> ${keyId}
    or substring(w.request_secrets from 2 for 4) <> ${keyId})`;

export async function countSealedWithOtherKey(sql: Queryable, keyId: Buffer): Promise<number> {
  const [row] = await sql<
    { n: number }[]
  >`select count(*) as n from webhook w where ${isSealedWithOtherKey(sql, keyId)}`;
  return row?.n ?? 0;
}

export async function listSealedWithOtherKey(
  sql: Queryable,
  page: { keyId: Buffer; after: { shard: number; id: number }; limitRows: number },
): Promise<Sealed[]> {
  return sql<Sealed[]>`
  select w.shard, w.id, w.encryption_key as key, w.next_encryption_key as next, w.request_secrets as request
  from webhook w
  where (w.shard, w.id) > (${page.after.shard}::smallint, ${page.after.id}::bigint)
    and ${isSealedWithOtherKey(sql, page.keyId)}
  order by w.shard, w.id limit ${page.limitRows}`;
}

type Renewed = Sealed & { keyAfter: Buffer | null; nextAfter: Buffer | null; requestAfter: Buffer | null };

/**
 * Replaces the envelopes where they are still the ones that were read, and returns the ids; locked rows are skipped.
 * Revision and date stay, because the webhook does not change.
 */
export async function replaceSealed(sql: Queryable, rows: readonly Renewed[]): Promise<number[]> {
  const written = await sql<{ id: number }[]>`
    with free as (
      select w.shard, w.id, r.key_after, r.next_after, r.request_after
      from unnest(
        ${rows.map(({ shard }) => shard)}::smallint[], ${rows.map(({ id }) => id)}::bigint[],
        ${rows.map(({ key }) => key)}::bytea[], ${rows.map(({ next }) => next)}::bytea[],
        ${rows.map(({ keyAfter }) => keyAfter)}::bytea[], ${rows.map(({ nextAfter }) => nextAfter)}::bytea[],
        ${rows.map(({ request }) => request)}::bytea[], ${rows.map(({ requestAfter }) => requestAfter)}::bytea[]
      ) as r (shard, id, key_before, next_before, key_after, next_after, request_before, request_after)
      join webhook w on w.shard = r.shard and w.id = r.id
      where w.encryption_key is not distinct from r.key_before
        and w.next_encryption_key is not distinct from r.next_before
        and w.request_secrets is not distinct from r.request_before
      for no key update of w skip locked
    )
    update webhook w set encryption_key = free.key_after, next_encryption_key = free.next_after,
      request_secrets = free.request_after
    from free where w.shard = free.shard and w.id = free.id
    returning w.id`;
  return written.map(({ id }) => id);
}

/** The sealed column of a past version of a webhook, bound to the id of the webhook. */
type SealedVersion = { shard: number; webhookId: number; revision: number; request: Buffer | null };

const isVersionOfOtherKey = (sql: Queryable, keyId: Buffer) =>
  sql`substring(v.request_secrets from 2 for 4) <> ${keyId}`;

export async function countVersionsOfOtherKey(sql: Queryable, keyId: Buffer): Promise<number> {
  const [row] = await sql<
    { n: number }[]
  >`select count(*) as n from webhook_version v where ${isVersionOfOtherKey(sql, keyId)}`;
  return row?.n ?? 0;
}

export async function listVersionsOfOtherKey(
  sql: Queryable,
  page: { keyId: Buffer; after: Omit<SealedVersion, 'request'>; limitRows: number },
): Promise<SealedVersion[]> {
  const { shard, webhookId, revision } = page.after;
  return sql<SealedVersion[]>`
  select v.shard, v.webhook_id as "webhookId", v.revision, v.request_secrets as request
  from webhook_version v
  where (v.shard, v.webhook_id, v.revision) > (${shard}::smallint, ${webhookId}::bigint, ${revision}::int)
    and ${isVersionOfOtherKey(sql, page.keyId)}
  order by v.shard, v.webhook_id, v.revision limit ${page.limitRows}`;
}

/** Replaces the envelopes where they are still the ones that were read, and returns the keys of the rows; locked rows are skipped. */
export async function replaceVersions(
  sql: Queryable,
  rows: readonly (SealedVersion & { after: Buffer | null })[],
): Promise<Pick<SealedVersion, 'webhookId' | 'revision'>[]> {
  return sql<Pick<SealedVersion, 'webhookId' | 'revision'>[]>`
    with free as (
      select v.shard, v.webhook_id, v.revision, r.after
      from unnest(
        ${rows.map(({ shard }) => shard)}::smallint[], ${rows.map(({ webhookId }) => webhookId)}::bigint[],
        ${rows.map(({ revision }) => revision)}::int[], ${rows.map(({ request }) => request)}::bytea[],
        ${rows.map(({ after }) => after)}::bytea[]
      ) as r (shard, webhook_id, revision, before, after)
      join webhook_version v on v.shard = r.shard and v.webhook_id = r.webhook_id and v.revision = r.revision
      where v.request_secrets = r.before
      for no key update of v skip locked
    )
    update webhook_version v set request_secrets = free.after
    from free where v.shard = free.shard and v.webhook_id = free.webhook_id and v.revision = free.revision
    returning v.webhook_id as "webhookId", v.revision`;
}
