/** Changelog entries about stores and members. */
import { actionOf, type Actor, type Change, type Changelog, type Facts } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import type { STORE_PROPERTIES } from './document.ts';
import type { Role } from './stores-sql.ts';
import type { StoreDetails } from './rules.ts';

/** The actor of a change, its time, and the changelog. */
export type By = { changelog: Changelog; actor: Actor; now: Date };

/**
 * Properties that the changelog compares; a new property of a store is a type error here until it is added, unless it never
 * changes.
 */
type AuditedProperty = Exclude<keyof typeof STORE_PROPERTIES, 'id' | 'is_sandbox' | 'date_created' | 'date_modified'>;

const storeFacts = ({ name, domain, email, timeZone, subscriptionEvents, secondFactor }: StoreDetails): Facts =>
  ({
    name,
    domain,
    email,
    time_zone: timeZone,
    subscription_events: subscriptionEvents,
    second_factor: secondFactor,
  }) satisfies Record<AuditedProperty, string>;

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
