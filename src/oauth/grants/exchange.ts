/** What every grant gets: an authenticated client's form, where it came from, and the moment. */
import type { Origin } from '#accounts/audit/audit.ts';
import type { Sql } from '#database/pool.ts';
import type { AuthenticatedClient } from '../client-auth.ts';
import type { Form } from '../form.ts';
import type { Lifetimes, TokenAnswer } from '../issue.ts';

/** How refresh tokens are rotated: what their successors are computed with, and how long the old ones are kept. */
export type Rotation = { successorKey: Uint8Array; rotatedTokenKeptDays: number };

export type Exchange = {
  sql: Sql;
  client: AuthenticatedClient;
  form: Form;
  origin: Origin;
  lifetimes: Lifetimes;
  rotation: Rotation;
  now: Date;
};

/** Answers tokens or throws a `TokenRefusal`. */
export type Grant = (exchange: Exchange) => Promise<TokenAnswer>;
