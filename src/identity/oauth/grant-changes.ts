/** The changelog entries of a grant in its store: given and revoked. */
import type { Actor, Change, Changelog } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import type { EachDatabase } from '#shards/map.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import type { AppWebhooks } from './clients/app-webhook.ts';
import type { Bearer } from './oauth-tokens.ts';
import { scopeNames, scopeOfGrants, type GrantedScope } from './scope.ts';

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
    const scope = scopeNames(scopeOfGrants(storeId, permissions)).join(' ');
    const facts = { client_id: clientId, name, user_id: userId, scope };
    const [before, after] = action === 'given' ? [null, facts] : [facts, null];
    return [{ storeId, actor, resource: 'grant', resourceId: grantId, action, before, after }];
  });
}
