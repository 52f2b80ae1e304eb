/** Parses and serializes scopes (RFC 6749 §3.3). */
import { collectionOf, labelOf, readScopeOf, scopedTypes } from '#catalog/catalog.ts';
import { parseId } from '#core/ids.ts';
import type { Permission, Scope } from '#core/principal.ts';

/** Returns what each limited scope permits, in words: on the consent page, the account page and in the reference. */
export function permissionTexts(): ReadonlyMap<Permission, string> {
  return new Map<Permission, string>([
    ['store_read', 'See everything in the store: customers, subscriptions, transactions and webhooks'],
    ['webhooks', "See, create and change webhooks, and receive the store's events at its own URLs"],
    ['events_read', "See the store's events with their contents"],
    ...scopedTypes().map((type): [Permission, string] => [
      readScopeOf(type),
      `See the store's ${labelOf(collectionOf(type))}, with what is embedded in them`,
    ]),
  ]);
}

/** Returns the scopes for parts of one store, in the order of every scope text. */
export function allPermissions(): readonly Permission[] {
  return [...permissionTexts().keys()];
}

/** The scopes with full access that a user can grant. A client without registered scopes may ask for these. */
export const FULL_SCOPES = ['store_full_access', 'user_full_access'] as const;

/** Returns all scopes that a client may register and a user can grant. */
export function userScopes(): readonly string[] {
  return [...FULL_SCOPES, ...allPermissions()];
}

/** Returns what each scope of an app permits, in words: where a developer chooses the scopes, and on the page of the app. */
export function scopeTexts(): ReadonlyMap<string, string> {
  return new Map<string, string>([
    ['store_full_access', 'See and change everything in one store'],
    ['user_full_access', 'See and change everything in the account and all its stores'],
    ...permissionTexts(),
  ]);
}

/** What a grant permits: `permissions` are the limited scopes of a grant with `store_limited`, and null for all others. */
export type GrantedScope = { scope: Scope; permissions: readonly Permission[] | null };

/** `storeId` is the store that the client wants preselected. */
export type RequestedScope = GrantedScope & { scope: Exclude<Scope, 'platform'>; storeId: number | undefined };

const STORE = 'store_id_';

/** As long as the headers of a request, which bound a scope at /authorize: 1 MiB of entries at /token took 150 ms. */
const SCOPE_CHARACTERS_MAX = 32 * 1024;

/** Returns the distinct entries of a scope parameter. A longer text is one entry, which is no scope. */
export function scopeEntries(text: string): string[] {
  if (text.length > SCOPE_CHARACTERS_MAX) return [text];
  return [...new Set(text.split(' ').filter((entry) => entry !== ''))];
}

/** Returns the limited scopes among the entries, in the order of the list. */
export function permissionsAmong(entries: readonly string[]): Permission[] {
  return allPermissions().filter((permission) => entries.includes(permission));
}

/** Returns whether the scope is for one store, which the user chooses. */
export function isForStore({ scope }: Pick<GrantedScope, 'scope'>): boolean {
  return scope === 'store_full_access' || scope === 'store_limited';
}

function readNames(names: readonly string[]): Omit<RequestedScope, 'storeId'> | undefined {
  const [first] = names;
  const full = FULL_SCOPES.find((scope) => scope === first);
  if (full !== undefined) return names.length === 1 ? { scope: full, permissions: null } : undefined;
  const limited = permissionsAmong(names);
  return names.length > 0 && limited.length === names.length
    ? { scope: 'store_limited', permissions: limited }
    : undefined;
}

/**
 * Parses a requested scope; undefined unless it is exactly one of the two with full access, or only limited ones. At most one
 * store may stand next to those for a store.
 */
export function readScope(text: string): RequestedScope | undefined {
  const entries = scopeEntries(text);
  const granted = readNames(entries.filter((entry) => !entry.startsWith(STORE)));
  const [store, ...otherStores] = entries.filter((entry) => entry.startsWith(STORE));
  if (granted === undefined || otherStores.length > 0) return undefined;
  if (store === undefined) return { ...granted, storeId: undefined };
  const storeId = isForStore(granted) ? parseId(store.slice(STORE.length)) : undefined;
  return storeId === undefined ? undefined : { ...granted, storeId };
}

/**
 * Returns the limited scopes to which a refresh narrows its token; null if it asks for nothing narrower than the grant. Of an
 * entry that is no scope the statement finds that it was not granted.
 */
export function narrowedTo(entries: readonly string[]): readonly Permission[] | null {
  if (entries.length === 0) return null;
  const limited = permissionsAmong(entries);
  return limited.length === 0 || FULL_SCOPES.some((full) => entries.includes(full)) ? null : limited;
}

/** Returns the scope of the grants of an app for a store (null: the account); `limited` may contain repetitions. */
export function scopeOfGrants(storeId: number | null, limited: readonly Permission[] | null): GrantedScope {
  if (storeId === null) return { scope: 'user_full_access', permissions: null };
  if (limited === null) return { scope: 'store_full_access', permissions: null };
  return { scope: 'store_limited', permissions: permissionsAmong(limited) };
}

/** Returns the names of the scopes of a grant: the one with full access, or the limited ones. */
export function scopeNames({ scope, permissions: limited }: GrantedScope): readonly string[] {
  return limited ?? [scope];
}

/** Returns the scope of the grants of an app for a store (null: the account) as a text. */
export function scopeTextOfGrants(storeId: number | null, limited: readonly Permission[] | null): string {
  return scopeNames(scopeOfGrants(storeId, limited)).join(' ');
}

/** Returns whether a client may ask for the scope. Without registered scopes it may ask for full access, as before there were any. */
export function mayAskFor(registered: readonly string[] | null, scope: GrantedScope): boolean {
  const allowed: readonly string[] = registered ?? FULL_SCOPES;
  return scopeNames(scope).every((name) => allowed.includes(name));
}

/** Returns what a client with these scopes may get for one store (null: everything); undefined if it may ask for no store. */
export function permissionsForStore(registered: readonly string[] | null): readonly Permission[] | null | undefined {
  if (registered === null || registered.includes('store_full_access')) return null;
  const limited = permissionsAmong(registered);
  return limited.length === 0 ? undefined : limited;
}

/** Returns the scope for the token response; a grant for a store includes the store. */
export function scopeText(granted: GrantedScope, storeId: number | null): string {
  return [...scopeNames(granted), ...(storeId === null ? [] : [`${STORE}${storeId}`])].join(' ');
}

/** The permissions of each kind of access, as on the consent page. */
const MAY_STORE = 'See and change everything: customers, subscriptions, transactions and webhooks';
const MAY_ACCOUNT = 'See your account and do everything you can in all your stores, including future ones';

type Access = { storeId: number | null; permissions: readonly Permission[] | null };

/** Returns what an app may do: the sentence of its full access (`ofAccount` for an account), or those of its limited scopes. */
export function permissionWords({ storeId, permissions }: Access, ofAccount = MAY_ACCOUNT): readonly string[] {
  const { permissions: limited } = scopeOfGrants(storeId, permissions);
  if (limited === null) return [storeId === null ? ofAccount : MAY_STORE];
  const texts = permissionTexts();
  return limited.map((name) => texts.get(name) ?? name);
}
