/** The end of a user: with the commit nothing opens any more that was opened in their name. */
import { transaction, type Sql, type Tx } from '#database/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#kernel/problem.ts';
import { originOf, recordDeed, type Deed } from '../audit/audit.ts';
import { deleteUser, lockForErasure } from './queries.ts';

/** Erases what other rooms keep of a user, in the transaction that it is given. */
export type EraseTheirs = (tx: Tx, of: { userId: number } & Pick<Deed, 'client' | 'origin' | 'now'>) => Promise<void>;

/**
 * What stays is the audit, for as long as it is kept: it says by number who did what. Throws a 404 where there is no such
 * user.
 */
export const eraseUser = (
  sql: Sql,
  { userId, eraseTheirs }: { userId: number; eraseTheirs: EraseTheirs },
  request: Pick<ApiRequest, 'principal' | 'address' | 'headers' | 'now' | 'unmodified'>,
): Promise<void> =>
  transaction(sql, async (tx) => {
    const made = await lockForErasure(tx, userId);
    if (made === undefined) throw notFound('user');
    request.unmodified(made.getTime());
    const by = { userId, client: request.principal.clientId, origin: originOf(request), now: request.now };
    await eraseTheirs(tx, by);
    await recordDeed(tx, { ...by, action: 'user_erased' });
    await deleteUser(tx, userId);
  });
