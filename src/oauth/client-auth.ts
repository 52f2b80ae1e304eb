/** Who calls the token endpoint: client_id and client_secret, by Basic or in the body (RFC 6749 §2.3.1). */
import { timingSafeEqual } from 'node:crypto';
import type { Queryable } from '#database/pool.ts';
import { isClientId } from './clients/clients.ts';
import { tokenErrors, TokenRefusal } from './errors.ts';
import type { Form } from './form.ts';
import { findClientSecrets } from './queries.ts';
import { hashToken } from './tokens.ts';

export type AuthenticatedClient = { id: number; trusted: boolean };

type Credentials = { clientId: string; secret: string };

const CHALLENGE = { 'WWW-Authenticate': 'Basic realm="halcyon", charset="UTF-8"' };
const NO_HASH = Buffer.alloc(32);

const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));

/** The two halves are form-encoded before they are joined and encoded (RFC 6749 §2.3.1); undefined where it is not so. */
const readBasic = (authorization: string): Credentials | undefined => {
  const encoded = /^Basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization)?.[1];
  const [, clientId, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
  if (clientId === undefined || secret === undefined) return undefined;
  try {
    return { clientId: formDecode(clientId), secret: formDecode(secret) };
  } catch {
    return undefined;
  }
};

/** From the header or from the body; both secrets at once, or two different ids, are a client that is confused. */
const readCredentials = (authorization: string | undefined, form: Form): Credentials | undefined => {
  if (authorization === undefined)
    return form.client_id === undefined || form.client_secret === undefined
      ? undefined
      : { clientId: form.client_id, secret: form.client_secret };
  if (form.client_secret !== undefined) throw new TokenRefusal(tokenErrors.twoSecrets);
  const credentials = readBasic(authorization);
  if (credentials !== undefined && form.client_id !== undefined && form.client_id !== credentials.clientId)
    throw new TokenRefusal(tokenErrors.twoClientIds);
  return credentials;
};

/**
 * The client that sent this request. An unknown client and a wrong secret take the same statement, the same comparison
 * and give the same answer. Throws `invalid_client` (with a challenge where the header was used, RFC 6749 §5.2).
 */
export const authenticateClient = async (
  sql: Queryable,
  request: { authorization: string | undefined; form: Form; now: Date },
): Promise<AuthenticatedClient> => {
  const { authorization, form, now } = request;
  const credentials = readCredentials(authorization, form);
  const clientId = credentials?.clientId ?? '';
  const client = await findClientSecrets(sql, isClientId(clientId) ? clientId : '', now);
  const hash = hashToken(credentials?.secret ?? '');
  const hashes = client === undefined || client.secretHashes.length === 0 ? [NO_HASH] : client.secretHashes;
  const matches = hashes.filter((stored) => timingSafeEqual(stored, hash)).length > 0;
  if (client !== undefined && matches) return { id: client.id, trusted: client.trusted };
  throw new TokenRefusal(tokenErrors.invalidClient, authorization === undefined ? {} : CHALLENGE);
};
