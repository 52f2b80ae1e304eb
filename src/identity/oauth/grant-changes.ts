/** What a grant leaves in the changelog of its store: that it was given, and that it has ended. */
import type { Actor, Change, Changelog } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';

/** `client` is the internal id, which is not told; `clientId` the public one; `name` is how the app was called then. */
export type LoggedGrant = {
  grantId: number;
  userId: number | null;
  /** Null where it is for an account, or the platform's own. */
  storeId: number | null;
  client: number;
  clientId: string;
  name: string;
};

/** What follows the end of grants, in the same transaction and before it is recorded. */
export type AfterGrants = {
  changelog: Changelog;
  /** Switches off the webhooks of an app, of a user, or of one store of theirs, whose app has no access any more. */
  stopWebhooks: (
    tx: Queryable,
    scope: { client?: number | undefined; userId?: number | undefined; storeId?: number | null | undefined },
    now: Date,
  ) => Promise<void>;
};

type AuditEntry = { actor: Actor; action: 'given' | 'revoked' };

/**
 * A grant for an account is in no store's changelog: it follows its user into whichever stores they are in at the moment,
 * so it is no setting of any of them; who may come in with it, is, and that stands there as the member. Tokens and codes are
 * not in what comes in here, so they cannot get out.
 */
export const grantChanges = (grants: readonly LoggedGrant[], { actor, action }: AuditEntry): Change[] =>
  grants.flatMap(({ grantId, userId, storeId, clientId, name }) => {
    if (storeId === null) return [];
    const facts = { client_id: clientId, name, user_id: userId, scope: 'store_full_access' };
    const [before, after] = action === 'given' ? [null, facts] : [facts, null];
    return [{ storeId, actor, resource: 'grant', resourceId: grantId, action, before, after }];
  });
