import type { Queryable } from '#database/pool.ts';
import type { ResourceType } from './catalogue.ts';

export type StoredResource = { version: number; baseUrl: string; body: string };

/** The latest version of a resource; undefined where the store has no such one. */
export const findResource = async (
  sql: Queryable,
  key: { shard: number; storeId: number; type: ResourceType; id: string },
): Promise<StoredResource | undefined> => {
  const [row] = await sql<StoredResource[]>`
    select version, base_url as "baseUrl", body
    from resource
    where shard = ${key.shard} and store_id = ${key.storeId} and type = ${key.type} and id = ${key.id}`;
  return row;
};
