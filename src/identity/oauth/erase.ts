/** Erases the grants and the apps of a user, in the transaction of the user's erasure. */
import type { EraseUserData } from '#identity/accounts/api/erase.ts';
import { removeClientsOf } from './clients/change.ts';
import { callerOf } from './clients/action.ts';
import { revokeGrantsOf } from './connected/connected.ts';
import type { RevocationEffects } from './grant-changes.ts';
import { deleteTokensOf, lockClientsOfUser } from './erase-sql.ts';

/**
 * A user's apps are deleted too: without their owner they could not be managed, and an app without an owner counts as the
 * operator's.
 *
 * Lock order: all clients before the grants, as everywhere a grant ends, so that two users connected to each other's apps
 * can be erased concurrently. Tokens are deleted before their grants (which the user's row cascades to), because a refresh
 * also locks its token first.
 */
export function eraseAppsOf(after: RevocationEffects): EraseUserData {
  return {
    lock: lockClientsOfUser,
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
  };
}
