/** When somebody listened to a held webhook the last time: by it the newest listener is known, and who never comes back. */
import type { Queryable } from '#db/pool.ts';
import type { Key } from '../webhook-sql.ts';

/** Somebody begins to listen; answers the moment that is theirs alone, undefined where the webhook is gone. */
export const beginListening = async (
  sql: Queryable,
  { shard, id }: Pick<Key, 'shard' | 'id'>,
  now: Date,
): Promise<Date | undefined> => {
  const [row] = await sql<{ listenedAt: Date }[]>`
    update webhook set listened_at = greatest(${now}::timestamptz, listened_at + interval '1 millisecond')
    where shard = ${shard} and id = ${id} and is_held
    returning listened_at as "listenedAt"`;
  return row?.listenedAt;
};

/** The same goes on listening, if nobody else has begun since `before`. */
export const goOnListening = async (
  sql: Queryable,
  { shard, id }: Pick<Key, 'shard' | 'id'>,
  { before, now }: { before: Date; now: Date },
): Promise<boolean> => {
  const { count } = await sql`
    update webhook set listened_at = ${now} where shard = ${shard} and id = ${id} and listened_at = ${before}`;
  return count > 0;
};

/** Undefined where the webhook is gone, or not within the caller's reach. */
export const lastListened = async (sql: Queryable, { shard, id, stores }: Key): Promise<Date | undefined> => {
  const [row] = await sql<{ listenedAt: Date }[]>`
    select listened_at as "listenedAt" from webhook
    where shard = ${shard} and id = ${id} and is_held
      and (${stores}::bigint[] is null or store_id = any (${stores}::bigint[]))`;
  return row?.listenedAt;
};

/** Held webhooks to which nobody has listened since `before`: who waits longest stands first. */
export const listForsaken = async (
  sql: Queryable,
  before: Date,
  limit: number,
): Promise<{ shard: number; id: number }[]> => sql<{ shard: number; id: number }[]>`
  select shard, id from webhook where is_held and listened_at < ${before} order by listened_at limit ${limit}`;
