/**
 * Records audit entries (user, action, origin and time, written in the transaction of the action), and describes them for the
 * account page.
 */
import type { Queryable } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { insertAuditEntry } from './accounts-sql.ts';

/** All audited actions, in the past tense, and how the account page describes them. */
const DESCRIPTIONS = {
  signed_in: 'Signed in',
  sign_in_failed: 'Wrong password entered',
  signed_out: 'Signed out',
  portal_link_created: 'Link to a store made by the platform',
  portal_link_used: 'Opened a store with a link of the platform',
  second_factor_failed: 'Wrong code or passkey of a second factor',
  identity_confirmed: 'Identity confirmed',
  recovery_code_used: 'Recovery code used',
  recovery_codes_renewed: 'Recovery codes renewed',
  passkey_added: 'Passkey added',
  passkey_renamed: 'Passkey renamed',
  passkey_removed: 'Passkey removed',
  authenticator_app_set: 'Authenticator app set up',
  authenticator_app_removed: 'Authenticator app removed',
  second_factors_removed: 'All second factors removed by the operator',
  external_identity_linked: 'Sign-in with a provider linked',
  external_identity_unlinked: 'Sign-in with a provider unlinked',
  sessions_ended: 'Other browsers signed out',
  password_changed: 'Password changed',
  password_reset_requested: 'Password reset link requested',
  password_reset: 'Password reset with a link',
  email_change_requested: 'Change of e-mail address requested',
  email_changed: 'E-mail address changed',
  email_change_cancelled: 'Change of e-mail address cancelled',
  email_change_undone: 'Change of e-mail address undone',
  sign_up_requested: 'Account requested',
  account_exported: 'Data of the account downloaded',
  user_created: 'Account created',
  user_disabled: 'Account disabled by the operator',
  user_enabled: 'Account enabled by the operator',
  user_erased: 'Account erased',
  operator_added: 'Role of operator given',
  operator_removed: 'Role of operator taken',
  invitation_accepted: 'Joined a store by an invitation',
  grant_given: 'App connected',
  grant_denied: 'App denied access',
  grant_revoked: 'App disconnected',
  grant_retired: 'Earlier access of an app ends within a day, because you connected it again',
  access_token_revoked: 'App revoked an access token',
  code_reused: 'App reused an authorization code and was disconnected',
  refresh_token_reused: 'App reused an old refresh token and was disconnected',
  client_created: 'Your app created',
  client_changed: 'Your app changed',
  client_secret_rotated: 'Secret of your app rotated',
  client_deleted: 'Your app deleted',
  client_suspended: 'Your app suspended by the operator',
  client_resumed: 'Suspension of your app ended by the operator',
  store_suspended: 'Store suspended by the operator',
  store_resumed: 'Suspension of a store ended by the operator',
  registration_token_created: 'Registration token created',
  registration_token_revoked: 'Registration token revoked',
} as const;
export type Action = keyof typeof DESCRIPTIONS;

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

export function describeAction(action: string): string {
  return Object.hasOwn(DESCRIPTIONS, action) ? DESCRIPTIONS[action as Action] : action;
}

/** The first match wins, because a browser's user agent also contains the names of those it is compatible with. */
const browsers: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:HeadlessChrome|Chrome|CriOS|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
];
const systems: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\b(?:iPhone|iPad)\b/, 'iOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
];
const LENGTH_MAX = 40;

/** Returns a name such as `Firefox on Linux`; undefined if the user agent is unknown. */
export function knownBrowserOf(userAgent: string | null): string | undefined {
  const nameIn = (table: typeof browsers) => table.find(([pattern]) => pattern.test(userAgent ?? ''))?.[1];
  const [browser, system] = [nameIn(browsers), nameIn(systems)];
  return browser === undefined || system === undefined ? browser : `${browser} on ${system}`;
}

/** Returns the name of a known browser, the beginning of an unknown user agent, or an empty text if there is none. */
export function browserOf(userAgent: string | null): string {
  if (userAgent === null) return '';
  const known = knownBrowserOf(userAgent);
  return known ?? (userAgent.length > LENGTH_MAX ? `${userAgent.slice(0, LENGTH_MAX)}…` : userAgent);
}
