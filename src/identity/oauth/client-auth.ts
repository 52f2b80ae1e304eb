/**
 * Who calls an endpoint of the protocol (RFC 6749 §2.3.1): a confidential client by client_id and client_secret, in Basic
 * or in the body; a public client, which has no secret, by its client_id alone.
 */
import { addressPrefix } from '#identity/accounts/throttle/prefix.ts';
import type { Throttle } from '#identity/accounts/throttle/throttle.ts';
import type { RawRequest } from '#http/route.ts';
import { isClientId } from './clients/clients.ts';
import { tokenErrors, TokenRefusal } from './errors.ts';
import type { Form } from './form.ts';
import type { ClientClaim } from './oauth-sql.ts';
import { hashToken } from './tokens.ts';

/** One statement, which answers nothing where the client is not proven, and may do more where it is. */
export type FindAuthenticated<Found> = (claim: ClientClaim) => Promise<Found | undefined>;

/** What `find` finds of the client. Throws `invalid_client`: 401, or 429 after many guesses. */
export type AuthenticateClient = <Found>(
  request: RawRequest,
  form: Form,
  find: FindAuthenticated<Found>,
) => Promise<Found>;

type Credentials = { clientId: string; secret: string | undefined };

const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));

/**
 * The two halves are form-encoded before they are joined and encoded (RFC 6749 §2.3.1); undefined where it is not so. An
 * empty secret is none: that is how some libraries send a public client's id.
 */
const readBasic = (authorization: string): Credentials | undefined => {
  const encoded = /^Basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization)?.[1];
  const [, clientId, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
  if (clientId === undefined || secret === undefined) return undefined;
  try {
    return { clientId: formDecode(clientId), secret: formDecode(secret) || undefined };
  } catch {
    return undefined;
  }
};

/** From the header or from the body; both secrets at once, or two different ids, are a client that is confused. */
const readCredentials = (authorization: string | undefined, form: Form): Credentials | undefined => {
  if (authorization === undefined)
    return form.client_id === undefined ? undefined : { clientId: form.client_id, secret: form.client_secret };
  if (form.client_secret !== undefined) throw new TokenRefusal(tokenErrors.twoSecrets);
  const credentials = readBasic(authorization);
  if (credentials !== undefined && form.client_id !== undefined && form.client_id !== credentials.clientId)
    throw new TokenRefusal(tokenErrors.twoClientIds);
  return credentials;
};

const refused = (): TokenRefusal => new TokenRefusal(tokenErrors.invalidClient);

/**
 * One statement where the client is who it says. A wrong secret takes one from the bucket of this client and address
 * afterwards, and where the bucket is empty the answer says when to come again.
 *
 * The right secret always works, whatever the bucket holds: secrets are 256 random bits, so that no number of guesses
 * finds one, while a bucket that refused the right one would let whoever guesses from the same address lock the owner out.
 * What the bucket does is to tell a program with a wrong secret to slow down.
 */
export const createClientAuthentication =
  ({ throttle }: { throttle: Throttle }): AuthenticateClient =>
  async ({ headers: { authorization }, address, now }, form, find) => {
    const credentials = readCredentials(authorization, form);
    if (credentials === undefined) throw refused();
    const { clientId, secret } = credentials;
    const secretHash = secret === undefined ? null : hashToken(secret);
    const found = await find({ clientId: isClientId(clientId) ? clientId : '', secretHash, now });
    if (found !== undefined) return found;
    // Who sends no secret guesses none.
    if (secret === undefined) throw refused();
    const subject = JSON.stringify([clientId, addressPrefix(address)]);
    const taken = await throttle.take([{ limit: 'client from address', subject }], now);
    if (taken.allowed) throw refused();
    throw new TokenRefusal(tokenErrors.guessing, { 'Retry-After': String(taken.retryAfterSeconds) });
  };
