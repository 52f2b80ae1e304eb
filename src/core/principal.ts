import { parseId, shardOf } from './ids.ts';
import { notFound, Problem, type Fault } from './problem.ts';

export type Scope = 'store_full_access' | 'user_full_access' | 'platform';

/**
 * Who asks, and what they may reach. Made by the bearer check (or by a session) and handed to every handler, so that no
 * room asks another who may read. `stores` lists the stores the principal reaches; `'all'` is the platform's.
 */
export type Principal = {
  userId: number | null;
  /** The client's internal id, which says whose something is and is shown to nobody. */
  clientId: number | null;
  /** The same client by the `client_id` that everybody knows it by. */
  publicClientId: string | null;
  grantId: number | null;
  scope: Scope;
  stores: readonly number[] | 'all';
  /** The stores whose owner is here in person, signed in; empty for whoever shows a token. */
  owned: readonly number[];
};

export const reachesStore = (principal: Principal, storeId: number): boolean =>
  principal.stores === 'all' || principal.stores.includes(storeId);

/** The platform reaches everybody; whoever else, the person that they are or act for. */
export const reachesUser = ({ scope, userId }: Principal, id: number): boolean => scope === 'platform' || userId === id;

/** What a person has besides their stores: an app that was let into one store reaches none of it. */
export const reachesAccount = (principal: Principal, id: number): boolean =>
  principal.scope !== 'store_full_access' && reachesUser(principal, id);

/** Whether somebody is here in person, by their session, and not an app that they let in. */
export const isInPerson = ({ grantId, userId }: Principal): boolean => grantId === null && userId !== null;

/** The store that an address names as `:store_id`. Throws a 404 where the principal does not reach it. */
export const storeOfAddress = (asked: {
  params: Readonly<Record<string, string>>;
  principal: Principal;
}): { shard: number; storeId: number } => {
  const storeId = parseId(asked.params['store_id'] ?? '');
  if (storeId === undefined || !reachesStore(asked.principal, storeId)) throw notFound('store');
  return { shard: shardOf(storeId), storeId };
};

/**
 * 403 `insufficient_scope` with its challenge (RFC 6750 §3.1) unless the principal holds the platform's scope; `what` says it
 * of a part of what was asked for.
 */
export const requirePlatform = (principal: Principal, what: Partial<Fault> = {}): void => {
  if (principal.scope === 'platform') return;
  throw new Problem(
    403,
    { code: 'insufficient_scope', message: 'This needs a token with the scope platform', ...what },
    { headers: { 'WWW-Authenticate': 'Bearer realm="halcyon", error="insufficient_scope", scope="platform"' } },
  );
};

/** Whether somebody is here in person who owns the store. */
export const ownsStore = ({ owned }: Principal, storeId: number | undefined): boolean =>
  storeId !== undefined && owned.includes(storeId);

/** The platform, or an owner of the store in person: whom somebody let in does not say who else belongs to it. */
export const requireOwner = (principal: Principal, storeId: number | undefined): void => {
  if (ownsStore(principal, storeId)) return;
  if (!isInPerson(principal)) requirePlatform(principal);
  else throw new Problem(403, { code: 'owner_required', message: 'Only an owner of the store can do this' });
};
