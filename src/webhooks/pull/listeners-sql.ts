/** The statements of `listened_at`, which identifies the newest listener of a pull webhook and finds unattended webhooks. */
import type { Queryable } from '#db/pool.ts';
import type { Key } from '../webhook-sql.ts';

/** Registers a listener and returns its unique time; undefined if the webhook was deleted. */
export async function beginListening(
  sql: Queryable,
  { shard, id }: Pick<Key, 'shard' | 'id'>,
  now: Date,
): Promise<Date | undefined> {
  const [row] = await sql<{ listenedAt: Date }[]>`
    update webhook set listened_at = greatest(${now}::timestamptz, listened_at + interval '1 millisecond')
    where shard = ${shard} and id = ${id} and is_held
    returning listened_at as "listenedAt"`;
  return row?.listenedAt;
}

/** Renews the time of a listener; returns false if a newer one has begun since `before`. */
export async function renewListening(
  sql: Queryable,
  { shard, id }: Pick<Key, 'shard' | 'id'>,
  { before, now }: { before: Date; now: Date },
): Promise<boolean> {
  const { count } = await sql`
    update webhook set listened_at = ${now} where shard = ${shard} and id = ${id} and listened_at = ${before}`;
  return count > 0;
}

/** Returns the time of the newest listener; undefined if the webhook was deleted or the caller may not access it. */
export async function lastListened(sql: Queryable, { shard, id, stores }: Key): Promise<Date | undefined> {
  const [row] = await sql<{ listenedAt: Date }[]>`
    select listened_at as "listenedAt" from webhook
    where shard = ${shard} and id = ${id} and is_held
      and (${stores}::bigint[] is null or store_id = any (${stores}::bigint[]))`;
  return row?.listenedAt;
}

/** Returns pull webhooks without a listener since `before`, the longest unattended first. The listener of a suspended app cannot come. */
export async function listUnattended(
  sql: Queryable,
  before: Date,
  limit: number,
): Promise<{ shard: number; id: number }[]> {
  return sql<{ shard: number; id: number }[]>`
  select shard, id from webhook
  where is_held and listened_at < ${before} and inactive_reason is distinct from 'suspended'
  order by listened_at limit ${limit}`;
}
