/** Records audit entries: user, action, origin and time, written in the transaction of the action. */
import type { Queryable } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { insertAuditEntry } from './audit-sql.ts';

/** All audited actions, in the past tense. */
export type Action =
  | 'signed_in'
  | 'sign_in_failed'
  | 'signed_out'
  | 'second_factor_failed'
  | 'identity_confirmed'
  | 'recovery_code_used'
  | 'recovery_codes_renewed'
  | 'passkey_added'
  | 'passkey_renamed'
  | 'passkey_removed'
  | 'authenticator_app_set'
  | 'authenticator_app_removed'
  | 'second_factors_removed'
  | 'external_identity_linked'
  | 'external_identity_unlinked'
  | 'sessions_ended'
  | 'password_changed'
  | 'password_reset_requested'
  | 'password_reset'
  | 'email_change_requested'
  | 'email_changed'
  | 'email_change_cancelled'
  | 'email_change_undone'
  | 'sign_up_requested'
  | 'account_exported'
  | 'user_created'
  | 'user_disabled'
  | 'user_enabled'
  | 'user_erased'
  | 'invitation_accepted'
  | 'grant_given'
  | 'grant_denied'
  | 'grant_revoked'
  | 'grant_retired'
  | 'access_token_revoked'
  | 'code_reused'
  | 'refresh_token_reused'
  | 'client_created'
  | 'client_changed'
  | 'client_secret_rotated'
  | 'client_deleted'
  | 'registration_token_created'
  | 'registration_token_revoked';

/** The source of a request; null for an action on the command line. */
export type Origin = { address: string; userAgent: string | null };

const USER_AGENT_LENGTH_MAX = 512;
const ADDRESS_LENGTH_MAX = 64;

export function originOf({ address, headers }: Pick<RawRequest, 'address' | 'headers'>): Origin {
  return {
    address: address.slice(0, ADDRESS_LENGTH_MAX),
    // Bytes of a header that are not ASCII arrive as Latin-1: what cannot be printed is of no use to a reader.
    userAgent: headers['user-agent']?.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, USER_AGENT_LENGTH_MAX) ?? null,
  };
}

export type AuditEntry = {
  action: Action;
  /** The acting user or, if another party acted (a failed sign-in, the operator), the user concerned. */
  userId: number | null;
  /** The client's internal id. */
  client?: number | null;
  storeId?: number | null;
  origin: Origin | null;
  /** Further details, such as names and changed members. Never contains a secret. */
  detail?: Readonly<Record<string, string | number | boolean | null | readonly string[]>>;
  now: Date;
};

/** Records an entry. Call it in the transaction of the action, so that both or neither are committed. */
export function recordAuditEntry(sql: Queryable, entry: AuditEntry): Promise<void> {
  return insertAuditEntry(sql, entry);
}
