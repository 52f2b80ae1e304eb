/** Changelog entries about stores and members. */
import { actionOf, type Actor, type Change, type Changelog, type Facts } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { factsOf } from '#http/field-table.ts';
import { storeFields, type StoreDetails } from './store-fields.ts';
import type { Role } from './members/member.ts';

/** The actor of a change, its time, and the changelog. */
export type By = { changelog: Changelog; actor: Actor; now: Date };

const factsOfStore = factsOf(storeFields);
const storeFacts = (store: StoreDetails): Facts => factsOfStore(store, store.timeZone, {});

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
