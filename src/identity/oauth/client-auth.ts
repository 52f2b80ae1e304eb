/**
 * Authenticates clients at protocol endpoints (RFC 6749 §2.3.1): a confidential client by client_id and client_secret, by
 * Basic authentication or in the body; a public client, which has no secret, by its client_id.
 */
import { addressPrefix, type Throttle } from '#identity/accounts/throttle.ts';
import type { RawRequest } from '#http/route.ts';
import { isClientId } from './clients/clients.ts';
import { tokenErrors, TokenRefusal } from './oauth-errors.ts';
import type { Form } from './protocol-parameters.ts';
import type { ClientClaim } from './oauth-sql.ts';
import { hashToken } from './oauth-tokens.ts';

/** Runs one statement, which returns undefined if the client is not authenticated, and may do more if it is. */
export type FindAuthenticated<Found> = (claim: ClientClaim) => Promise<Found | undefined>;

/** Returns the result of `find` for the client. Throws `invalid_client`: 401, or 429 after many wrong secrets. */
export type AuthenticateClient = <Found>(
  request: RawRequest,
  form: Form,
  find: FindAuthenticated<Found>,
) => Promise<Found>;

type Credentials = { clientId: string; secret: string | undefined };

const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));

/**
 * Parses Basic credentials, whose two parts are form-encoded (RFC 6749 §2.3.1); undefined if malformed. An empty secret is
 * treated as absent, because some libraries send a public client's id that way.
 */
function readBasic(authorization: string): Credentials | undefined {
  const encoded = /^Basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization)?.[1];
  const [, clientId, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
  if (clientId === undefined || secret === undefined) return undefined;
  try {
    return { clientId: formDecode(clientId), secret: formDecode(secret) || undefined };
  } catch {
    return undefined;
  }
}

/** Throws if a request authenticates in two ways (RFC 6749 §2.3). */
export function requireOneMethod(authorization: string | undefined, form: Form): void {
  const methods = [authorization, form.client_secret, form.client_assertion].filter((given) => given !== undefined);
  if (methods.length > 1) throw new TokenRefusal(tokenErrors.twoMethods);
}

/**
 * Reads the credentials from the header or the body; undefined without any, and for an assertion (RFC 7521 §4.2), which is not supported.
 * Throws for two methods, and for two different ids.
 */
function readCredentials(authorization: string | undefined, form: Form): Credentials | undefined {
  requireOneMethod(authorization, form);
  if (form.client_assertion !== undefined) return undefined;
  if (authorization === undefined)
    return form.client_id === undefined ? undefined : { clientId: form.client_id, secret: form.client_secret };
  const credentials = readBasic(authorization);
  if (credentials !== undefined && form.client_id !== undefined && form.client_id !== credentials.clientId)
    throw new TokenRefusal(tokenErrors.twoClientIds);
  return credentials;
}

const authenticationFailed = (): TokenRefusal => new TokenRefusal(tokenErrors.invalidClient);

/**
 * Authenticates in one statement. A wrong secret then takes a token from the bucket of this client and address; if it is
 * empty, the response is a 429 with `Retry-After`.
 *
 * The right secret always works, even with an empty bucket: secrets are 256 random bits and cannot be guessed, while a
 * bucket that rejected the right secret would let an attacker at the same address lock the owner out. The bucket only slows
 * down programs with a wrong secret.
 */
export function createClientAuthentication({ throttle }: { throttle: Throttle }): AuthenticateClient {
  return async ({ headers: { authorization }, address, now }, form, find) => {
    const credentials = readCredentials(authorization, form);
    if (credentials === undefined) throw authenticationFailed();
    const { clientId, secret } = credentials;
    const secretHash = secret === undefined ? null : hashToken(secret);
    const found = await find({ clientId: isClientId(clientId) ? clientId : '', secretHash, now });
    if (found !== undefined) return found;
    // A request without a secret is not a guess.
    if (secret === undefined) throw authenticationFailed();
    const subject = JSON.stringify([clientId, addressPrefix(address)]);
    const taken = await throttle.take([{ limit: 'client from address', subject }], now);
    if (taken.allowed) throw authenticationFailed();
    throw new TokenRefusal(tokenErrors.guessing, { 'Retry-After': String(taken.retryAfterSeconds) });
  };
}
