/** What goes with a user: everything they have let in, and the apps they have made. */
import type { Deed } from '#accounts/audit/audit.ts';
import type { Tx } from '#database/pool.ts';
import { removeClientsOf } from '../clients/change.ts';
import { revokeGrantsOf } from '../connected/connected.ts';
import { deleteTokensOf } from './queries.ts';

/**
 * Give it the transaction of the erasure. Their apps go with them: nobody else could give one another secret or delete
 * it, and without an owner it would pass for one of the operator's. Tokens go before the grants, which go with the user's
 * row: a refresh locks its token first and its grant afterwards, too.
 */
export const eraseAppsOf = async (
  tx: Tx,
  { userId, client, origin, now }: { userId: number } & Pick<Deed, 'client' | 'origin' | 'now'>,
): Promise<void> => {
  await revokeGrantsOf(tx, { userId, origin, now });
  await deleteTokensOf(tx, userId);
  const caller = typeof client === 'number' ? { by_client: client } : undefined;
  await removeClientsOf(tx, userId, { userId: null, caller, origin, now });
};
