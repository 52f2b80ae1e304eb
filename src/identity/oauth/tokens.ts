/** Creates and hashes the secrets issued to clients: 32 random bytes after a prefix for the type. */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Keys } from '#core/keys.ts';

const TOKEN_BYTES = 32;

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const prefixes = {
  accessToken: 'hal_at_',
  refreshToken: 'hal_rt_',
  authorizationCode: 'hal_ac_',
  deviceCode: 'hal_dc_',
  clientSecret: 'hal_cs_',
  registrationToken: 'hal_it_',
  managementToken: 'hal_mt_',
} as const;

export type TokenKind = keyof typeof prefixes;

/** A secret and its stored hash. */
export type CreatedToken = { value: string; hash: Buffer };

/**
 * Returns the SHA-256 of the whole value, by which the row is looked up. A slow hash or a salt would add nothing, because 32
 * random bytes cannot be guessed.
 */
export function hashToken(value: string): Buffer {
  return createHash('sha256').update(value).digest();
}

export function createToken(kind: TokenKind): CreatedToken {
  const value = prefixes[kind] + randomBytes(TOKEN_BYTES).toString('base64url');
  return { value, hash: hashToken(value) };
}

/**
 * Returns the successor of a refresh token: its HMAC-SHA256 under a key of this server. A client that retries because the
 * response was lost gets the same successor, although only hashes are stored.
 */
function successorWith(key: Buffer, refreshToken: string): CreatedToken {
  const value = prefixes.refreshToken + createHmac('sha256', key).update(refreshToken).digest('base64url');
  return { value, hash: hashToken(value) };
}

/** Returns the successor under the current key, and those that a process with another key would have issued. */
export function successorsOf([key, ...others]: Keys, refreshToken: string): [CreatedToken, ...CreatedToken[]] {
  return [successorWith(key, refreshToken), ...others.map((other) => successorWith(other, refreshToken))];
}

/** Returns whether the text has the format of this kind of token; if not, a lookup is unnecessary. */
export function looksLike(kind: TokenKind, text: string): boolean {
  return text.startsWith(prefixes[kind]) && /^[A-Za-z0-9_-]{43}$/.test(text.slice(prefixes[kind].length));
}

const TOKENS = new RegExp(`(${Object.values(prefixes).join('|')})[A-Za-z0-9_-]+`, 'g');

/** Returns the text for display, with each secret in it cut to its prefix. */
export function withoutTokens(text: string): string {
  return text.replaceAll(TOKENS, '$1…');
}
