/** Changes of stores and members together with their changelog entries, and entries of invitations; shared by commands and the API. */
import type { Queryable, Tx } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { addMember, createStore, type NewStore } from './store.ts';
import { deleteMember, findStore, type StoreRow } from './stores-sql.ts';
import { actionOf, actorOf, type Actor, type Change, type Changelog, type Facts } from '#changelog/changelog.ts';
import { factsOf } from '#http/field-table.ts';
import { storeFields, type StoreDetails } from './store-document.ts';
import type { Role } from './members/member.ts';

/** Creates a store and the first entry of its changelog. */
export async function createStoreWithEntry(tx: Tx, details: NewStore, by: By): Promise<StoreRow> {
  const { id } = await createStore(tx, { ...details, now: by.now });
  const store = await findStore(tx, { shard: shardOf(id), storeId: id });
  if (store === undefined) throw new Error('A store that was just created does not exist');
  await recordStore(tx, id, { before: null, after: store }, by);
  return store;
}

type Member = { storeId: number; userId: number };

/** What a member granted to apps, which begins and ends in a store with the membership. */
export type MemberAccess = {
  /** Locks the apps, which is done before memberships are locked, as everywhere. */
  lock: (tx: Queryable, member: Member) => Promise<void>;
  /** Applies the grants for the whole account, which include the store from now on. */
  begin: (tx: Queryable, member: Member, now: Date) => Promise<void>;
  /** Revokes the grants for the store, and disables the webhooks of apps without another access to it. */
  end: (tx: Queryable, member: Member, by: Pick<By, 'actor' | 'now'> & { request: Origin | null }) => Promise<void>;
};
type Origin = Pick<ApiRequest, 'address' | 'headers'>;

/** What changes of the members of a store also affect, in the same transaction. */
export type MemberEffects = { changelog: Changelog; memberAccess: MemberAccess };

/** Adds a user to a store, or changes the role of a member. Throws a 404 if either does not exist. */
export async function addMemberWithEntry(
  tx: Tx,
  member: Member & { role: Role },
  by: By & { access: Pick<MemberAccess, 'begin'> },
): Promise<void> {
  const before = await addMember(tx, { ...member, now: by.now });
  await recordMember(tx, member, { before, after: member.role }, by);
  await by.access.begin(tx, member, by.now);
}

/**
 * Removes a user from a store. The user's grants for it are revoked, so that they do not return with the membership. `check`
 * locks the membership and throws if it must not end. Throws a 404 if the user is not a member.
 */
export async function removeMemberWithEntry(
  tx: Tx,
  member: Member,
  by: By & { access: MemberAccess; request: Origin | null; check?: () => Promise<unknown> },
): Promise<void> {
  await by.access.lock(tx, member);
  await by.check?.();
  const before = await deleteMember(tx, { ...member, shard: shardOf(member.storeId) });
  if (before === undefined) throw notFound('member');
  await by.access.end(tx, member, by);
  await recordMember(tx, member, { before, after: null }, by);
}

/** The actor of a change, its time, and the changelog. */
export type By = { changelog: Changelog; actor: Actor; now: Date };

/** Returns who makes the change of a request. */
export function byOf(changelog: Changelog, { principal, now }: Pick<ApiRequest, 'principal' | 'now'>): By {
  return { changelog, actor: actorOf(principal), now };
}

const factsOfStore = factsOf(storeFields);

/** Returns the facts without the key of the platform, because owners and apps read the changelog. */
function storeFacts(store: StoreDetails): Facts {
  const { external_id: _, ...facts } = factsOfStore(store, store.timeZone, {});
  return facts;
}

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

/** Records that the platform made a link for a member, or that the member used it. */
export async function recordPortalLink(
  tx: Queryable,
  { storeId, userId, role }: { storeId: number; userId: number; role: Role },
  action: 'link_created' | 'link_used',
  { changelog, actor, now }: By,
): Promise<void> {
  const states = { before: null, after: { user_id: userId, role } };
  await changelog.record(tx, [{ storeId, actor, resource: 'member', resourceId: userId, action, ...states }], now);
}

/** Records what happened to an invitation. The entry has no e-mail address, because apps can read the changelog. */
export async function recordInvitation(
  tx: Queryable,
  { storeId, id }: { storeId: number; id: number },
  { action, role }: { action: 'created' | 'accepted' | 'declined' | 'deleted'; role: Role },
  { changelog, actor, now }: By,
): Promise<void> {
  const facts: Facts = { role };
  const states = action === 'created' ? { before: null, after: facts } : { before: facts, after: null };
  await changelog.record(tx, [{ storeId, actor, resource: 'invitation', resourceId: id, action, ...states }], now);
}
