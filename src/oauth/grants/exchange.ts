/** What every grant gets: an authenticated client's form, and the moment. */
import type { Sql } from '#database/pool.ts';
import type { AuthenticatedClient } from '../client-auth.ts';
import type { Form } from '../form.ts';
import type { Lifetimes, TokenAnswer } from '../issue.ts';

export type Exchange = { sql: Sql; client: AuthenticatedClient; form: Form; lifetimes: Lifetimes; now: Date };

/** Answers tokens or throws a `TokenRefusal`. */
export type Grant = (exchange: Exchange) => Promise<TokenAnswer>;
