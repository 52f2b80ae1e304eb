/**
 * Proof Key for Code Exchange (RFC 7636), S256 only: `plain` gives no protection against an attacker who reads the
 * request.
 */
import { createHash, timingSafeEqual } from 'node:crypto';

/** BASE64URL(SHA-256) is 43 characters (RFC 7636 §4.2). */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;
/** RFC 7636 §4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

/**
 * Returns whether the two parameters are valid together: both absent, or a challenge with the method S256. A challenge
 * without a method means `plain` (RFC 7636 §4.3), which is rejected.
 */
export function isValidChallenge(challenge: string | undefined, method: string | undefined): boolean {
  return challenge === undefined ? method === undefined : method === 'S256' && CHALLENGE.test(challenge);
}

/**
 * Returns whether the verifier matches. A verifier without a challenge fails too: an attacker may have stripped the
 * challenge (RFC 9700 §2.1.1).
 */
export function verifierFits(verifier: string | undefined, challenge: string | null): boolean {
  if (verifier === undefined || challenge === null) return verifier === undefined && challenge === null;
  if (!VERIFIER.test(verifier)) return false;
  const computed = createHash('sha256').update(verifier).digest('base64url');
  return computed.length === challenge.length && timingSafeEqual(Buffer.from(computed), Buffer.from(challenge));
}
