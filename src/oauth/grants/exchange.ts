/** What every grant gets: a form, the way to find out whose it is, where it came from, and the moment. */
import type { Origin } from '#accounts/audit/audit.ts';
import type { Changelog } from '#changelog/changelog.ts';
import type { Sql } from '#database/pool.ts';
import type { Keys } from '#kernel/keys.ts';
import type { FindProven } from '../client-auth.ts';
import type { TokenFault } from '../errors.ts';
import type { Form } from '../form.ts';
import type { Lifetimes, TokenAnswer } from '../issue.ts';

/** How refresh tokens are rotated: what their successors are computed with, and how long the old ones are kept. */
export type Rotation = { successorKeys: Keys; rotatedTokenKeptDays: number };

export type Exchange = {
  sql: Sql;
  /** For a grant that ends here; that one is given was written when the person said so. */
  changelog: Changelog;
  /** Authenticates the client by the first statement of the grant, whatever else it does; throws `invalid_client`. */
  authenticate: <Found>(find: FindProven<Found>) => Promise<Found>;
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
