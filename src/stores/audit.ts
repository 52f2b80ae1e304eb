/** Changes of stores and members with their changelog entries, shared by commands and the API. */
import { actionOf, type Actor, type Change, type Changelog, type Facts } from '#changelog/changelog.ts';
import type { Queryable, Tx } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import type { STORE_PROPERTIES } from './document.ts';
import { deleteMember, findStore, type Role, type StoreRow } from './stores-sql.ts';
import type { StoreDetails } from './rules.ts';
import { addMember, createStore, type NewStore } from './store.ts';

/** The actor of a change, its time, and the changelog. */
export type By = { changelog: Changelog; actor: Actor; now: Date };

/** Properties that the changelog compares; a new property of a store is a type error here until it is added. */
type AuditedProperty = Exclude<keyof typeof STORE_PROPERTIES, 'id' | 'date_created' | 'date_modified'>;

const storeFacts = ({ name, domain, email, timeZone, subscriptionEvents }: StoreDetails): Facts =>
  ({ name, domain, email, time_zone: timeZone, subscription_events: subscriptionEvents }) satisfies Record<
    AuditedProperty,
    string
  >;

type BeforeAfter<T> = { before: T | null; after: T | null };

export async function recordStore(
  tx: Queryable,
  storeId: number,
  { before, after }: BeforeAfter<StoreDetails>,
  { changelog, actor, now }: By,
): Promise<void> {
  const facts = { before: before && storeFacts(before), after: after && storeFacts(after) };
  const change: Change = { storeId, actor, resource: 'store', resourceId: storeId, action: actionOf(facts), ...facts };
  await changelog.record(tx, [change], now);
}

/** Records a change of membership. A role is null if the user is not a member. */
export async function recordMember(
  tx: Queryable,
  { storeId, userId }: { storeId: number; userId: number },
  { before, after }: BeforeAfter<Role>,
  { changelog, actor, now }: By,
): Promise<void> {
  const of = (role: Role | null): Facts | null => role && { user_id: userId, role };
  const facts = { before: of(before), after: of(after) };
  const change: Change = { storeId, actor, resource: 'member', resourceId: userId, action: actionOf(facts), ...facts };
  await changelog.record(tx, [change], now);
}

/** Creates a store and the first entry of its changelog. */
export async function openStore(tx: Tx, details: NewStore, by: By): Promise<StoreRow> {
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
export async function letIn(tx: Tx, member: Member & { role: Role }, by: By): Promise<void> {
  const before = await addMember(tx, { ...member, now: by.now });
  await recordMember(tx, member, { before, after: member.role }, by);
}

/**
 * Removes a user from a store. The user's grants for it are invalid while the user is not a member, and the webhooks made under
 * these grants are disabled. Throws a 404 if the user is not a member.
 */
export async function letGo(tx: Tx, member: Member, by: By & { stopWebhooks: StopWebhooks }): Promise<void> {
  const before = await deleteMember(tx, { ...member, shard: shardOf(member.storeId) });
  if (before === undefined) throw notFound('member');
  await by.stopWebhooks(tx, member, by.now);
  await recordMember(tx, member, { before, after: null }, by);
}
