/** Who did what, from where, when: written with the deed itself, read by the person it concerns and by the operator. */
import type { Queryable } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { insertAuditEntry } from './audit-sql.ts';

/** Everything that is written down, in the past tense. */
export type Action =
  | 'signed_in'
  | 'sign_in_failed'
  | 'signed_out'
  | 'password_changed'
  | 'password_reset_requested'
  | 'password_reset'
  | 'user_created'
  | 'user_disabled'
  | 'user_enabled'
  | 'user_erased'
  | 'grant_given'
  | 'grant_denied'
  | 'grant_revoked'
  | 'access_token_revoked'
  | 'code_reused'
  | 'refresh_token_reused'
  | 'client_created'
  | 'client_changed'
  | 'client_secret_rotated'
  | 'client_deleted'
  | 'registration_token_created'
  | 'registration_token_revoked';

/** Where a request came from; null for what is done on the machine itself. */
export type Origin = { address: string; userAgent: string | null };

const USER_AGENT_LENGTH_MAX = 512;
const ADDRESS_LENGTH_MAX = 64;

export const originOf = ({ address, headers }: Pick<RawRequest, 'address' | 'headers'>): Origin => ({
  address: address.slice(0, ADDRESS_LENGTH_MAX),
  // Bytes of a header that are not ASCII arrive as Latin-1: what cannot be printed is of no use to a reader.
  userAgent: headers['user-agent']?.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, USER_AGENT_LENGTH_MAX) ?? null,
});

export type AuditEntry = {
  action: Action;
  /** Who did it or, where somebody else did (a failed sign-in, the operator), whom it concerns. */
  userId: number | null;
  /** The client's internal id. */
  client?: number | null;
  storeId?: number | null;
  origin: Origin | null;
  /** What else there is to say: names, what changed. Never a secret. */
  detail?: Readonly<Record<string, string | number | boolean | null | readonly string[]>>;
  now: Date;
};

/** Give it the transaction of the deed, so that neither is there without the other. */
export const recordAuditEntry = (sql: Queryable, deed: AuditEntry): Promise<void> => insertAuditEntry(sql, deed);
