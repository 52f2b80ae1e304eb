/** How transactions of stores read accounts, which may be in another database. */
import type { Queryable } from '#db/pool.ts';
import { lockForAccess } from './outbox-sql.ts';

export type Accounts = {
  /** Returns the connection that reads accounts for a transaction. */
  of: (tx: Queryable) => Queryable;
  /**
   * Returns the connection that reads the access of apps, and keeps a change of an access from being applied to the stores until the
   * transaction ends.
   */
  locked: (tx: Queryable) => Promise<Queryable>;
};

/** Accounts in the database of the stores: the transaction reads them itself, and locks their rows. */
export const ACCOUNTS_HERE: Accounts = { of: (tx) => tx, locked: async (tx) => tx };

/** Accounts in the home database, for the stores of another one. */
export function accountsIn(home: Queryable): Accounts {
  return {
    of: () => home,
    locked: async (tx) => {
      await lockForAccess(tx, 'shared');
      return home;
    },
  };
}
