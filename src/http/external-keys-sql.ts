/** SQL of the table external_key. */
import { LOCKS } from '#db/advisory-lock.ts';
import type { Fragment, Queryable } from '#db/pool.ts';

/** The resources that have an `external_id`. */
export type KeyedResource = 'store' | 'user' | 'client';

/** The key of a resource, as a client of the platform has given it. */
export type ExternalKey = { client: number; resource: KeyedResource; key: string };

type Keyed = { resource: KeyedResource; id: number };

/**
 * Inserts a key, without an id for a resource that the transaction makes. Returns false if a resource has it; a transaction that inserts
 * the same key at the same time is waited for.
 */
export async function insertKey(
  sql: Queryable,
  { client, resource, key, id }: ExternalKey & { id: number | null },
): Promise<boolean> {
  const rows = await sql`
    insert into external_key (client, resource, key, resource_id) values (${client}, ${resource}, ${key}, ${id})
    on conflict (client, resource, key) do nothing
    returning key`;
  return rows.length === 1;
}

export async function assignKey(
  sql: Queryable,
  { client, resource, key, id }: ExternalKey & { id: number },
): Promise<void> {
  await sql`
    update external_key set resource_id = ${id} where client = ${client} and resource = ${resource} and key = ${key}`;
}

/** Returns the id of the resource that has the key. */
export async function findKeyed(sql: Queryable, { client, resource, key }: ExternalKey): Promise<number | undefined> {
  const [row] = await sql<{ id: number | null }[]>`
    select resource_id as id from external_key where client = ${client} and resource = ${resource} and key = ${key}`;
  return row?.id ?? undefined;
}

/** Lets one transaction at a time replace keys of a client: two that exchange their keys would wait for each other. */
export async function lockKeysOf(sql: Queryable, client: number): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashint8extended(${client}, ${LOCKS.externalKeys}))`;
}

/** Deletes the key that a client has given to a resource. */
export async function deleteOwnKey(
  sql: Queryable,
  { client, resource, id }: Keyed & { client: number },
): Promise<void> {
  await sql`delete from external_key where client = ${client} and resource = ${resource} and resource_id = ${id}`;
}

/** Deletes all keys of resources that are erased. */
export async function deleteKeysOf(
  sql: Queryable,
  { resource, ids }: { resource: KeyedResource; ids: readonly number[] },
): Promise<void> {
  await sql`delete from external_key where resource = ${resource} and resource_id = any(${ids}::bigint[])`;
}

/** Returns the expression of the key that a client has given to the row of a statement; null for callers that have none. */
export function keyExpression(
  sql: Queryable,
  { client, resource, id }: { client: number | null; resource: KeyedResource; id: Fragment },
): Fragment {
  return client === null
    ? sql`null::text`
    : sql`(select k.key from external_key k where k.resource = ${resource} and k.resource_id = ${id} and k.client = ${client})`;
}
