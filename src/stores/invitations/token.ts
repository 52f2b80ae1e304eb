/** Tokens of invitation links: random, single-use, stored as their SHA-256. */
import { createHash, randomBytes } from 'node:crypto';

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const PREFIX = 'hal_in_';
const TOKEN_BYTES = 32;

const hash = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Returns a new token and its hash. */
export function newToken(): { token: string; hash: Buffer } {
  const token = PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hash(token) };
}

/** Returns the hash by which a token is looked up; undefined if the text cannot be a token. */
export function hashOfToken(token: string): Buffer | undefined {
  const isToken = token.startsWith(PREFIX) && /^[A-Za-z0-9_-]{43}$/.test(token.slice(PREFIX.length));
  return isToken ? hash(token) : undefined;
}
