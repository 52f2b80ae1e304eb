/** What every grant gets: a form, the way to find out whose it is, where it came from, and the moment. */
import type { Origin } from '#identity/accounts/audit/audit.ts';
import type { Sql } from '#db/pool.ts';
import type { Keys } from '#core/keys.ts';
import type { AfterGrants } from '../grant-changes.ts';
import type { FindAuthenticated } from '../client-auth.ts';
import type { TokenFault } from '../errors.ts';
import type { Form } from '../form.ts';
import type { Lifetimes, TokenAnswer } from '../issue.ts';

/** How refresh tokens are rotated: what their successors are computed with, and how long the old ones are kept. */
export type Rotation = { successorKeys: Keys; rotatedTokenKeptDays: number };

/** `AfterGrants` for a grant that ends here; its beginning was recorded with the consent. */
export type Exchange = AfterGrants & {
  sql: Sql;
  /** Authenticates the client by the first statement of the grant, whatever else it does; throws `invalid_client`. */
  authenticate: <Found>(find: FindAuthenticated<Found>) => Promise<Found>;
  /** Refuses what is wrong with the form: before that the client is authenticated, as for anything else. */
  refuse: (fault: TokenFault) => Promise<never>;
  form: Form;
  origin: Origin;
  lifetimes: Lifetimes;
  rotation: Rotation;
  now: Date;
};

/** Authenticates the client, then answers tokens or throws a `TokenRefusal`. */
export type Grant = (exchange: Exchange) => Promise<TokenAnswer>;
