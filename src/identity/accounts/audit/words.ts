/** The audit for the person it concerns: what happened, and by which browser. */
import type { Action } from './audit.ts';

const words: Readonly<Record<Action, string>> = {
  signed_in: 'Signed in',
  sign_in_failed: 'A wrong password was given',
  signed_out: 'Signed out',
  password_changed: 'The password was changed',
  password_reset_requested: 'A link to a new password was asked for',
  password_reset: 'A new password was chosen by a link',
  user_created: 'The account was made',
  user_disabled: 'The account was closed by the operator',
  user_enabled: 'The account was opened again by the operator',
  user_erased: 'The account was erased',
  grant_given: 'An app was let in',
  grant_denied: 'An app was not let in',
  grant_revoked: 'An app was disconnected',
  access_token_revoked: 'An app gave up an access token',
  code_reused: 'An app used a code twice and was disconnected',
  refresh_token_reused: 'An app used an old token again and was disconnected',
  client_created: 'An app of yours was made',
  client_changed: 'An app of yours was changed',
  client_secret_rotated: 'An app of yours got a new secret',
  client_deleted: 'An app of yours was deleted',
  registration_token_created: 'A token to register apps was made',
  registration_token_revoked: 'A token to register apps was revoked',
};

export const wordsFor = (action: string): string => (Object.hasOwn(words, action) ? words[action as Action] : action);

/** The first that is found counts: browsers name those that they want to be taken for, too. */
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

/** `Firefox on Linux`; the beginning of what is not known, and an empty text where nothing was said. */
export const browserOf = (userAgent: string | null): string => {
  if (userAgent === null) return '';
  const [browser, system] = [browsers, systems].map((table) => table.find(([pattern]) => pattern.test(userAgent))?.[1]);
  if (browser === undefined) return userAgent.length > LENGTH_MAX ? `${userAgent.slice(0, LENGTH_MAX)}…` : userAgent;
  return system === undefined ? browser : `${browser} on ${system}`;
};
