import { parseId, shardOf, type StoreKey } from './ids.ts';
import { notFound, Problem, type Fault, suspended } from './problem.ts';

/** What a token has access to. `store_limited`: to the parts of one store that its permissions name. */
export type Scope = 'store_full_access' | 'store_limited' | 'user_full_access' | 'platform';

/** A scope for a part of one store; `<resource>:read` reads the resources of one type. */
export type Permission = 'store_read' | 'webhooks' | 'events_read' | `${string}:read`;

export type Suspensions = ReadonlyMap<number, string>;

/** Returns the reasons of those stores that are suspended. */
export function suspensionsOf(stores: readonly { storeId: number; suspendedReason: string | null }[]): Suspensions {
  return new Map(
    stores.flatMap(({ storeId, suspendedReason: reason }) => (reason === null ? [] : [[storeId, reason] as const])),
  );
}

/**
 * The authenticated caller and the stores it has access to; `'all'` for the platform. The bearer check or the session creates
 * it and every handler receives it, so no module needs to ask another about permissions.
 */
export type Principal = {
  userId: number | null;
  /** Internal id of the client, which marks ownership and is never shown. */
  clientId: number | null;
  /** The public `client_id` of the same client. */
  publicClientId: string | null;
  grantId: number | null;
  scope: Scope;
  /** The scopes of a caller with `store_limited`; null for all others, which are not limited. */
  permissions: readonly Permission[] | null;
  stores: readonly number[] | 'all';
  /** Why further stores of the caller are suspended, by their ids; empty for the platform, which they do not stop. */
  suspended: Suspensions;
  /** Stores that the signed-in user owns; empty for callers with a token. */
  owned: readonly number[];
  /** A signed-in user who has to prove again who they are before secrets are shown. */
  mustConfirm?: true;
};

/** Returns the principal of a person without an app, with these stores. */
export function inPersonOf(userId: number, stores: readonly number[] = [], owned: readonly number[] = []): Principal {
  const noClient = { clientId: null, publicClientId: null, grantId: null };
  return { userId, ...noClient, scope: 'user_full_access', permissions: null, stores, suspended: new Map(), owned };
}

/** Returns the app that calls, which sees nothing about other apps; null for people and the platform, who see all. */
export function callingApp({ scope, clientId, publicClientId }: Principal): { id: number; clientId: string } | null {
  if (scope === 'platform' || clientId === null || publicClientId === null) return null;
  return { id: clientId, clientId: publicClientId };
}

/** Returns the client of the platform, whose keys (`external_id`) the caller reads and writes; null for other callers. */
export function platformClient({ scope, clientId }: Principal): number | null {
  return scope === 'platform' ? clientId : null;
}

export function reachesStore(principal: Principal, storeId: number): boolean {
  return principal.stores === 'all' || principal.stores.includes(storeId);
}

/** Throws a 403 if the caller has no access to the store because an operator has suspended it. */
export function refuseSuspended({ suspended: reasons }: Principal, storeId: number): void {
  const reason = reasons.get(storeId);
  if (reason !== undefined) throw suspended('store', reason);
}

/** Returns whether the caller has access to a user: the platform to all, others to the user that they are or act for. */
export function reachesUser({ scope, userId }: Principal, id: number): boolean {
  return scope === 'platform' || userId === id;
}

/** Returns whether the caller has access to the account of a user, which an app with access to one store has not. */
export function reachesAccount(principal: Principal, id: number): boolean {
  const { scope } = principal;
  return (scope === 'user_full_access' || scope === 'platform') && reachesUser(principal, id);
}

/** Returns whether the caller is a user with a session, and not an app. */
export function isInPerson({ grantId, userId }: Principal): boolean {
  return grantId === null && userId !== null;
}

/** Returns whether the caller is this user in person. */
export function isPerson(principal: Principal, userId: number | undefined): boolean {
  return isInPerson(principal) && principal.userId === userId;
}

/** Returns the store of the path parameter `:store_id`. Throws a 404 if the caller has no access to it, a 403 if it is suspended. */
export function storeOfAddress(request: { params: Readonly<Record<string, string>>; principal: Principal }): StoreKey {
  const storeId = parseId(request.params['store_id'] ?? '');
  if (storeId === undefined) throw notFound('store');
  if (!reachesStore(request.principal, storeId)) {
    refuseSuspended(request.principal, storeId);
    throw notFound('store');
  }
  return { shard: shardOf(storeId), storeId };
}

/** Returns the 403 for a caller with none of the scopes, which its challenge names (RFC 6750 §3.1); `fault` replaces parts of the fault. */
function insufficientScope(scopes: readonly string[], fault: Partial<Fault> = {}): Problem {
  const message = `This needs a token with ${scopes.length === 1 ? 'the scope' : 'one of the scopes'} ${scopes.join(', ')}`;
  const challenge = `Bearer realm="halcyon", error="insufficient_scope", scope="${scopes.join(' ')}"`;
  const headers = { 'WWW-Authenticate': challenge };
  return new Problem(403, { code: 'insufficient_scope', message, ...fault }, { headers });
}

/** Throws a 403 `insufficient_scope` unless the caller has the scope `platform`; `fault` replaces parts of the fault. */
export function requirePlatform(principal: Principal, fault: Partial<Fault> = {}): void {
  if (principal.scope === 'platform') return;
  throw insufficientScope(['platform'], fault);
}

/**
 * The scopes of which each suffices for an operation, beside those with full access; `any`: every scope for the store; `account`: only full
 * access to the account of the user, because the operation concerns no store.
 */
export type SufficientScopes = readonly Permission[] | 'any' | 'account';

export function hasPermission({ permissions }: Principal, sufficient: SufficientScopes): boolean {
  return (
    permissions === null ||
    sufficient === 'any' ||
    permissions.some((held) => sufficient !== 'account' && sufficient.includes(held))
  );
}

/** Throws a 403 `insufficient_scope` unless the caller has a sufficient scope. */
export function requirePermission(principal: Principal, sufficient: SufficientScopes): void {
  if (sufficient === 'any' || hasPermission(principal, sufficient)) return;
  const scopes = sufficient === 'account' ? ['user_full_access'] : [...sufficient, 'store_full_access'];
  throw insufficientScope(scopes);
}

/** Returns whether the caller is a signed-in owner of the store. */
export function ownsStore({ owned }: Principal, storeId: number | undefined): boolean {
  return storeId !== undefined && owned.includes(storeId);
}

/** Returns whether the caller is the platform or a signed-in owner of the store. */
export function managesStore(principal: Principal, storeId: number | undefined): boolean {
  return principal.scope === 'platform' || ownsStore(principal, storeId);
}

/** Throws a 403 unless the caller is the platform or a signed-in owner of the store: apps cannot change its members. */
export function requireOwner(principal: Principal, storeId: number | undefined, fault: Partial<Fault> = {}): void {
  if (ownsStore(principal, storeId)) return;
  if (!isInPerson(principal)) requirePlatform(principal, fault);
  else throw new Problem(403, { code: 'owner_required', message: 'Only an owner of the store can do this', ...fault });
}
