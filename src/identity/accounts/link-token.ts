/** Tokens of mailed links: random, single-use, stored as their SHA-256. */
import { createHash, randomBytes } from 'node:crypto';

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const PREFIXES = { emailChange: 'hal_ec_', emailUndo: 'hal_eu_', signUp: 'hal_su_' } as const;
const TOKEN_BYTES = 32;

type Kind = keyof typeof PREFIXES;

const hash = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Returns a new token and its hash. */
export function newLinkToken(kind: Kind): { token: string; hash: Buffer } {
  const token = PREFIXES[kind] + randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hash(token) };
}

/** Returns the hash by which a token is looked up; undefined if the text cannot be a token of this kind. */
export function hashOfLinkToken(kind: Kind, token: string | null): Buffer | undefined {
  const prefix = PREFIXES[kind];
  const isToken = token?.startsWith(prefix) === true && /^[A-Za-z0-9_-]{43}$/.test(token.slice(prefix.length));
  return isToken ? hash(token) : undefined;
}
