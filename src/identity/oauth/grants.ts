/** The changelog entries of a grant in its store: given and revoked. */
import type { Actor, Change, Changelog } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import type { EachDatabase } from '#shards/map.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import type { LockAppsOf } from '#stores/store.ts';
import type { AppWebhooks } from './clients/clients.ts';
import type { Bearer } from './oauth-tokens.ts';
import { scopeTextOfGrants, type GrantedScope } from './scope.ts';
import { comparisonsOf, type Fields } from '#http/field-table.ts';
import { viewType } from '#hypermedia/document.ts';

/** `client` is the internal id, which is never exposed; `clientId` the public id; `name` the app's name at that time. */
export type LoggedGrant = {
  grantId: number;
  userId: number | null;
  /** Null for a grant of an account or of the platform. */
  storeId: number | null;
  permissions: GrantedScope['permissions'];
  client: number;
  clientId: string;
  name: string;
};

/** What giving or revoking a grant also affects, in the same transaction: the changelog and the app's webhooks. */
export type RevocationEffects = {
  changelog: Changelog;
  /**
   * Applies the beginning or end of grants, of an app, of a user, or of one store of the user: disables the webhooks of apps without
   * access, and writes the events of apps that declare a webhook.
   */
  accessChanged: (
    tx: Queryable,
    scope: { client?: number | undefined; userId?: number | undefined; storeId?: number | null | undefined },
    now: Date,
  ) => Promise<void>;
  /** Locks the apps that declare webhooks of a store, before the store is suspended or erased. */
  lockAppsOf: LockAppsOf;
  /** Called when a grant for a store has expired, after its end. */
  noteExpired: (
    tx: Queryable,
    grant: { grantId: number; clientId: string; storeId: number },
    now: Date,
  ) => Promise<void>;
};

/** What apps and grants change and read outside their own tables. */
export type AppsDeps = {
  effects: RevocationEffects;
  memberEffects: MemberEffects;
  appWebhooks: AppWebhooks;
  eachDatabase: EachDatabase;
  bearer: Bearer;
};

type AuditEntry = { actor: Actor; action: 'given' | 'revoked' };

/**
 * Returns the changelog entries of grants. A grant for an account is in no store's changelog, because its stores follow the
 * user's memberships, which the changelog records as members. The input contains no tokens or codes, so none can leak.
 */
export function grantChanges(grants: readonly LoggedGrant[], { actor, action }: AuditEntry): Change[] {
  return grants.flatMap(({ grantId, userId, storeId, permissions, clientId, name }) => {
    if (storeId === null) return [];
    const scope = scopeTextOfGrants(storeId, permissions);
    const facts = { client_id: clientId, name, user_id: userId, scope };
    const [before, after] = action === 'given' ? [null, facts] : [facts, null];
    return [{ storeId, actor, resource: 'grant', resourceId: grantId, action, before, after }];
  });
}

export const grantFields = {
  id: { kind: 'number', from: 'sql' },
  /** The user who connected the app. */
  user_id: { kind: 'number', from: 'sql' },
  // Filters would reveal e-mail addresses to apps, which see none.
  user_email: { kind: 'text', isNullable: true, from: 'code', comparison: 'none' },
  client_id: { kind: 'text', from: 'sql' },
  name: { kind: 'text', from: 'sql' },
  company: { kind: 'text', isNullable: true, from: 'sql' },
  is_verified: { kind: 'boolean', from: 'sql' },
  scope: { kind: 'enumeration', from: 'code' },
  /** Null if the grant is for the account with all its stores. */
  store_id: { kind: 'number', isNullable: true, from: 'sql' },
  date_created: { kind: 'date', from: 'sql' },
  date_used: { kind: 'date', isNullable: true, from: 'sql' },
  /** Null if the access is kept until it is revoked. */
  date_ends: { kind: 'date', isNullable: true, from: 'sql' },
  webhooks_total: { kind: 'number', from: 'code', comparison: 'none' },
  webhooks_active: { kind: 'number', from: 'code', comparison: 'none' },
} as const satisfies Fields;

export const installFields = {
  /** The latest grant for this store, or of this account; represents all of them. */
  id: { kind: 'number', from: 'sql' },
  /** Null if a user has given access to the account with all its stores. */
  store_id: { kind: 'number', isNullable: true, from: 'sql' },
  store_name: { kind: 'text', isNullable: true, from: 'sql' },
  scope: { kind: 'enumeration', from: 'code' },
  date_created: { kind: 'date', from: 'sql' },
  date_used: { kind: 'date', isNullable: true, from: 'sql' },
  /** The webhooks of the app in this store; 0 for an account, whose stores have installs of their own or none. */
  webhooks_total: { kind: 'number', from: 'code', comparison: 'none' },
  webhooks_active: { kind: 'number', from: 'code', comparison: 'none' },
  webhooks_failing: { kind: 'number', from: 'code', comparison: 'none' },
} as const satisfies Fields;

/** What a person reads of an access: where to, what the app may do there, how long, and its webhooks, in words. */
type AccessView = {
  /** The company of the app, for those who connected it. */
  company: string | null;
  isUnverified: boolean;
  reach: string;
  permissions: readonly string[];
  since: string;
  lastUsed: string | null;
  /** Null if the access is kept. */
  ends: string | null;
  webhooks: string;
};

/** Returns how many webhooks the app created, in words. */
export function webhookWords({ total, active }: { total: number; active: number }): string {
  if (total === 0) return 'None';
  if (active === total) return `${total}, ${total === 1 ? 'active' : 'all active'}`;
  return active === 0 ? `${total}, ${total === 1 ? 'inactive' : 'none active'}` : `${total}, of which ${active} active`;
}

export const accessView = viewType<AccessView>('access');

export const GRANT_PROPERTIES = comparisonsOf(grantFields);
export const INSTALL_PROPERTIES = comparisonsOf(installFields);
