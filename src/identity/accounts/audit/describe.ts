/** Describes audit entries for the account page: the action and the browser. */
import type { Action } from './audit.ts';

const descriptions: Readonly<Record<Action, string>> = {
  signed_in: 'Signed in',
  sign_in_failed: 'Wrong password entered',
  signed_out: 'Signed out',
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
  registration_token_created: 'Registration token created',
  registration_token_revoked: 'Registration token revoked',
};

export function describeAction(action: string): string {
  return Object.hasOwn(descriptions, action) ? descriptions[action as Action] : action;
}

/** The first match wins, because a browser's user agent also contains the names of those it is compatible with. */
const browsers: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Chrome|CriOS|Chromium)\//, 'Chrome'],
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
