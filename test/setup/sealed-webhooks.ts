/** Inserts webhook rows with keys and request secrets that the test has sealed. */
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import { idOf, shardOf } from '#core/ids.ts';

/** The current and the next key of a webhook. */
export function keyOf(id: number): string {
  return `the key of ${id}`;
}
export function nextKeyOf(id: number): string {
  return `the next key of ${id}`;
}
/** The secrets of its url and headers. */
export function requestOf(id: number): string {
  return JSON.stringify({ url: null, headers: { 'X-Token': `token of ${id}` } });
}

/** Inserts disabled webhooks during a rotation, numbered from `first`, and returns their ids. */
export async function sealWebhooks(
  sql: Sql,
  sealer: Sealer,
  { storeId, first, count }: { storeId: number; first: number; count: number },
): Promise<number[]> {
  const shard = shardOf(storeId);
  const ids = Array.from({ length: count }, (_, at) => idOf(first + at, shard));
  const now = new Date();
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, encryption_key, next_encryption_key, rotation_ends_at,
      events, is_active, headers, request_secrets, retry_profile, date_created, date_modified)
    select ${shard}, id, ${storeId}, 'hook', 'json', '2', key, next, ${now}::timestamptz + interval '1 day', '{}', false,
      '{"X-Token":null}', request, 'long', ${now}, ${now}
    from unnest(
      ${ids}::bigint[], ${ids.map((id) => sealer.seal(keyOf(id), `webhook:${id}`))}::bytea[],
      ${ids.map((id) => sealer.seal(nextKeyOf(id), `webhook:${id}`))}::bytea[],
      ${ids.map((id) => sealer.seal(requestOf(id), `webhook:${id}`))}::bytea[]
    ) as w (id, key, next, request)`;
  return ids;
}
