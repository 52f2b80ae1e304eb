/** What a grant leaves in the changelog of its store: that it was given, and that it has ended. */
import type { Actor, Change } from '#changelog/changelog.ts';

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

type Deed = { actor: Actor; action: 'given' | 'revoked' };

/**
 * A grant for an account is in no store's changelog: it follows its user into whichever stores they are in at the moment,
 * so it is no setting of any of them; who may come in with it, is, and that stands there as the member. Tokens and codes are
 * not in what comes in here, so they cannot get out.
 */
export const grantChanges = (grants: readonly LoggedGrant[], { actor, action }: Deed): Change[] =>
  grants.flatMap(({ grantId, userId, storeId, clientId, name }) => {
    if (storeId === null) return [];
    const facts = { client_id: clientId, name, user_id: userId, scope: 'store_full_access' };
    const [before, after] = action === 'given' ? [null, facts] : [facts, null];
    return [{ storeId, actor, resource: 'grant', resourceId: grantId, action, before, after }];
  });
