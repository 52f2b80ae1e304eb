/** `external_id`: the key by which a client of the platform finds, makes and changes a resource again. */
import type { Queryable, Tx } from '#db/pool.ts';
import type { Filter } from '#core/listing.ts';
import { platformClient, type Principal } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';
import {
  assignKey,
  deleteOwnKey,
  findKeyed,
  insertKey,
  lockKeysOf,
  type ExternalKey,
  type KeyedResource,
} from './external-keys-sql.ts';

/** Returns what the schemas of a resource say of its `external_id`. */
export function externalIdHints(resource: KeyedResource) {
  return {
    maxLength: 64,
    description: `Your own key of the ${resource}: a POST with a known one changes its ${resource}. Only your client sees it.`,
    isOfPlatform: true,
    isForPrograms: true,
  } as const;
}

/** Returns the key that a request of the platform names; undefined if it names none. */
export function keyOf(
  principal: Principal,
  resource: KeyedResource,
  externalId: string | null | undefined,
): ExternalKey | undefined {
  const client = platformClient(principal);
  return client === null || !externalId ? undefined : { client, resource, key: externalId };
}

type Kept = { row: { id: number } };

/**
 * Changes the resource that has the key, or makes one that has it from now on. Of concurrent requests with one new key, one makes the
 * resource, and the others wait and change it. `change` locks the resource and returns undefined if it was erased, which frees its key.
 */
export async function changeOrMake<T extends Kept>(
  tx: Tx,
  key: ExternalKey | undefined,
  { change, make }: { change: (id: number) => Promise<T | undefined>; make: () => Promise<T> },
): Promise<T & { isKnown: boolean }> {
  if (key === undefined) return { ...(await make()), isKnown: false };
  while (!(await insertKey(tx, { ...key, id: null }))) {
    const id = await findKeyed(tx, key);
    if (id === undefined) continue;
    const changed = await change(id);
    if (changed !== undefined) return { ...changed, isKnown: true };
    await deleteOwnKey(tx, { ...key, id });
  }
  const made = await make();
  await assignKey(tx, { ...key, id: made.row.id });
  return { ...made, isKnown: false };
}

/** Replaces the key that a client has given to a resource; null removes it. Throws a 409 if another resource has the key. */
export async function replaceKey(
  tx: Tx,
  { key, ...of }: { client: number; resource: KeyedResource; id: number; key: string | null },
): Promise<void> {
  await lockKeysOf(tx, of.client);
  await deleteOwnKey(tx, of);
  if (key === null || (await insertKey(tx, { ...of, key }))) return;
  const message = `Another ${of.resource} has this external_id`;
  throw new Problem(409, { code: 'external_id_taken', message, field: 'external_id' });
}

/**
 * Returns the ids to which a list with a filter by `external_id` is limited; undefined if it has none. The filter alone would compare every
 * row.
 */
export async function keyedIds(
  sql: Queryable,
  { principal, resource, filters }: { principal: Principal; resource: KeyedResource; filters: readonly Filter[] },
): Promise<readonly number[] | undefined> {
  const filter = filters.find(({ property, operator }) => property === 'external_id' && operator === 'is');
  const key = keyOf(principal, resource, typeof filter?.value === 'string' ? filter.value : null);
  if (key === undefined) return undefined;
  const id = await findKeyed(sql, key);
  return id === undefined ? [] : [id];
}
