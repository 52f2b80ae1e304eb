/** The nonce of the consent form: this session has seen the page of this very request. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { AuthorizationRequest } from './authorization-request.ts';

/**
 * HMAC-SHA256 over the session and everything that the approval depends on. Nothing is stored, so two tabs and two
 * clients do not get in each other's way, and sent twice it gives a second code and no error.
 */
export const consentNonce = (key: Uint8Array, sessionId: string, request: AuthorizationRequest): string => {
  const { client, redirectUri, scope, state, codeChallenge } = request;
  const bound = [sessionId, client.id, redirectUri, scope.scope, scope.storeId ?? null, state, codeChallenge];
  return createHmac('sha256', key).update(JSON.stringify(bound)).digest('base64url');
};

export const isConsentNonce = (given: string | null, expected: string): boolean => {
  const bytes = Buffer.from(given ?? '');
  return bytes.length === expected.length && timingSafeEqual(bytes, Buffer.from(expected));
};
