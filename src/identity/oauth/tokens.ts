/** Everything secret that clients are handed: 32 random bytes behind a prefix that says what it is. */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Keys } from '#core/keys.ts';

const TOKEN_BYTES = 32;

/** The prefix lets a secret scanner, and a person who reads a log, know what has leaked. */
const prefixes = {
  accessToken: 'hal_at_',
  refreshToken: 'hal_rt_',
  authorizationCode: 'hal_ac_',
  clientSecret: 'hal_cs_',
  registrationToken: 'hal_it_',
} as const;

export type TokenKind = keyof typeof prefixes;

/** A secret and what is stored of it. */
export type CreatedToken = { value: string; hash: Buffer };

/**
 * SHA-256 of the whole value. A slow hash or a salt would add nothing: 32 random bytes cannot be guessed, and the hash
 * is what the row is found by.
 */
export const hashToken = (value: string): Buffer => createHash('sha256').update(value).digest();

export const createToken = (kind: TokenKind): CreatedToken => {
  const value = prefixes[kind] + randomBytes(TOKEN_BYTES).toString('base64url');
  return { value, hash: hashToken(value) };
};

/**
 * The refresh token that follows this one: HMAC-SHA256 of it, under a key that only this server has. Whoever presents the
 * same one again, because the answer was lost on the way, gets the same successor, though only hashes are stored.
 */
const successorWith = (key: Buffer, refreshToken: string): CreatedToken => {
  const value = prefixes.refreshToken + createHmac('sha256', key).update(refreshToken).digest('base64url');
  return { value, hash: hashToken(value) };
};

/** The successor, and those that a process with another key would have made of it. */
export const successorsOf = ([key, ...others]: Keys, refreshToken: string): [CreatedToken, ...CreatedToken[]] => [
  successorWith(key, refreshToken),
  ...others.map((other) => successorWith(other, refreshToken)),
];

/** Whether the text can be a token of this kind at all; where not, no statement is spent on it. */
export const looksLike = (kind: TokenKind, text: string): boolean =>
  text.startsWith(prefixes[kind]) && /^[A-Za-z0-9_-]{43}$/.test(text.slice(prefixes[kind].length));

const TOKENS = new RegExp(`(${Object.values(prefixes).join('|')})[A-Za-z0-9_-]+`, 'g');

/** The text with nothing but the prefix left of each secret in it: for what is shown to people. */
export const withoutTokens = (text: string): string => text.replaceAll(TOKENS, '$1…');
