/** The input and output of the handler of a grant type. */
import type { Origin } from '#identity/accounts/audit/audit.ts';
import type { Sql } from '#db/pool.ts';
import type { Keys } from '#core/keys.ts';
import type { RevocationEffects } from '../grant-changes.ts';
import type { FindAuthenticated } from '../client-auth.ts';
import type { TokenFault } from '../errors.ts';
import type { Form } from '../form.ts';
import type { Lifetimes, TokenAnswer } from '../issue.ts';

/** The rotation of refresh tokens: the keys that derive successors, and how long rotated tokens are kept. */
export type Rotation = { successorKeys: Keys; rotatedTokenKeptDays: number };

/** `RevocationEffects` is for a grant that is revoked here, after reuse. */
export type Exchange = RevocationEffects & {
  sql: Sql;
  /** Authenticates the client within the first statement of the grant type. Throws `invalid_client`. */
  authenticate: <Found>(find: FindAuthenticated<Found>) => Promise<Found>;
  /** Throws the fault of the form, after authenticating the client. */
  refuse: (fault: TokenFault) => Promise<never>;
  form: Form;
  origin: Origin;
  lifetimes: Lifetimes;
  rotation: Rotation;
  now: Date;
};

/** Authenticates the client, then returns tokens or throws a `TokenRefusal`. */
export type GrantHandler = (exchange: Exchange) => Promise<TokenAnswer>;
