/** What goes with a user: everything they have let in, and the apps they have made. */
import type { EraseUserData } from '#identity/accounts/api/erase.ts';
import { removeClientsOf } from './clients/change.ts';
import { callerOf } from './clients/action.ts';
import { revokeGrantsOf } from './connected/connected.ts';
import type { AfterGrants } from './grant-changes.ts';
import { deleteTokensOf, lockClientsAround } from './erase-sql.ts';

/**
 * Give it the transaction of the erasure. Their apps go with them: nobody else could give one another secret or delete
 * it, and without an owner it would pass for one of the operator's. Tokens go before the grants, which go with the user's
 * row: a refresh locks its token first and its grant afterwards, too. All clients are held before the grants, because
 * whatever ends a grant holds its client first: two people who have let in each other's apps may be erased at the same time.
 */
export const eraseAppsOf = (after: AfterGrants): EraseUserData => ({
  lock: lockClientsAround,
  erase: async (tx, { userId, actor, client, origin, now }) => {
    await revokeGrantsOf(tx, after, { userId, actor, origin, now });
    await deleteTokensOf(tx, userId);
    await removeClientsOf(tx, after, userId, {
      userId: null,
      caller: callerOf(client ?? null, actor.client),
      origin,
      now,
    });
  },
});
