/**
 * Accounts whose e-mail address is not verified: a person made them with an invitation link that was handed over, under any address. The
 * person who verifies the address gets a new account, so that nothing remains that was set on the old one.
 */
import { inPerson } from '#changelog/changelog.ts';
import type { Tx } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { lockUnverified } from './accounts-sql.ts';
import { eraseLockedUser, type ErasureDeps } from './api/erase.ts';

/** Erases the account with this address unless it is verified. Call it before the account of the person is added. */
export type EraseUnverified = (
  tx: Tx,
  email: string,
  request: Pick<RawRequest, 'address' | 'headers' | 'now'>,
) => Promise<void>;

export function createEraseUnverified(deps: ErasureDeps): EraseUnverified {
  return async (tx, email, request) => {
    const userId = await lockUnverified(tx, email);
    if (userId === undefined) return;
    await eraseLockedUser(tx, deps, { userId, actor: inPerson(userId), client: null, request });
  };
}
