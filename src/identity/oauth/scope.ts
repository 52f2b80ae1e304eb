/** Parses and serializes scopes (RFC 6749 §3.3). */
import { parseId } from '#core/ids.ts';
import type { Scope } from '#core/principal.ts';

type UserScope = Exclude<Scope, 'platform'>;
/** `storeId` is the store that the client wants preselected. */
export type RequestedScope = { scope: UserScope; storeId: number | undefined };

const STORE = 'store_id_';

/** Returns the distinct entries of a scope parameter. */
export function scopeEntries(text: string): string[] {
  return [...new Set(text.split(' ').filter((entry) => entry !== ''))];
}

/**
 * Parses a requested scope; undefined unless it is exactly one of the two, with at most one store next to
 * `store_full_access`.
 */
export function readScope(text: string): RequestedScope | undefined {
  const entries = scopeEntries(text);
  const [scope, ...others] = entries.filter((entry) => !entry.startsWith(STORE));
  const [store, ...otherStores] = entries.filter((entry) => entry.startsWith(STORE));
  if (others.length > 0 || otherStores.length > 0) return undefined;
  if (scope === 'user_full_access') return store === undefined ? { scope, storeId: undefined } : undefined;
  if (scope !== 'store_full_access') return undefined;
  if (store === undefined) return { scope, storeId: undefined };
  const storeId = parseId(store.slice(STORE.length));
  return storeId === undefined ? undefined : { scope, storeId };
}

/** Returns the scope for the token response; a grant for a store includes the store. */
export function scopeText(scope: Scope, storeId: number | null): string {
  return storeId === null ? scope : `${scope} ${STORE}${storeId}`;
}
