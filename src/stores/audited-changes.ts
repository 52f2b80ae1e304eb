/** Changes of stores and members together with their changelog entries, shared by commands and the API. */
import type { Queryable, Tx } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { recordMember, recordStore, type By } from './audit.ts';
import { addMember, createStore, type NewStore } from './store.ts';
import { deleteMember, findStore, type Role, type StoreRow } from './stores-sql.ts';

/** Creates a store and the first entry of its changelog. */
export async function createStoreWithEntry(tx: Tx, details: NewStore, by: By): Promise<StoreRow> {
  const { id } = await createStore(tx, { ...details, now: by.now });
  const store = await findStore(tx, shardOf(id), id);
  if (store === undefined) throw new Error('A store that was just created does not exist');
  await recordStore(tx, id, { before: null, after: store }, by);
  return store;
}

/** Disables the webhooks of apps that lose their access when a user leaves a store. */
export type StopWebhooks = (tx: Queryable, scope: { userId: number; storeId: number }, now: Date) => Promise<void>;

type Member = { storeId: number; userId: number };

/** Adds a user to a store, or changes the role of a member. Throws a 404 if either does not exist. */
export async function addMemberWithEntry(tx: Tx, member: Member & { role: Role }, by: By): Promise<void> {
  const before = await addMember(tx, { ...member, now: by.now });
  await recordMember(tx, member, { before, after: member.role }, by);
}

/**
 * Removes a user from a store. The user's grants for it are invalid while the user is not a member, and the webhooks made under
 * these grants are disabled. Throws a 404 if the user is not a member.
 */
export async function removeMemberWithEntry(
  tx: Tx,
  member: Member,
  by: By & { stopWebhooks: StopWebhooks },
): Promise<void> {
  const before = await deleteMember(tx, { ...member, shard: shardOf(member.storeId) });
  if (before === undefined) throw notFound('member');
  await by.stopWebhooks(tx, member, by.now);
  await recordMember(tx, member, { before, after: null }, by);
}
