/** OAuth clients: the apps that ask for access, and the platform itself. */
import { randomBytes } from 'node:crypto';
import type { Queryable } from '#database/pool.ts';
import { invalid, Problem, type Fault } from '#kernel/problem.ts';
import { insertClient } from './queries.ts';
import { whyNotRegistrable } from '../redirect-uri.ts';
import { mintToken } from '../tokens.ts';

export type NewClient = {
  name: string;
  company?: string;
  description?: string;
  redirectUris: readonly string[];
  /** May use client_credentials with the scope platform; needs no redirect address. */
  trusted: boolean;
  now: Date;
  /** For an id that must be known before; random where absent. */
  clientId?: string;
};

const REDIRECT_URIS_MAX = 20;
const CLIENT_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Whether the text can be a client_id; whatever else comes in a request never reaches a statement. */
export const isClientId = (text: string): boolean => CLIENT_ID.test(text);

const textFaults = (field: string, text: string | undefined, min: number, max: number): Fault[] => {
  if (text === undefined) return [];
  const length = Array.from(text).length;
  if (length >= min && length <= max && !/\p{Cc}/u.test(text)) return [];
  const message = `${field} must be ${min} to ${max} characters without control characters`;
  return [{ code: 'invalid_value', message, field }];
};

const redirectUriFaults = ({ redirectUris, trusted }: NewClient): Fault[] => {
  const field = 'redirect_uris';
  if (redirectUris.length > REDIRECT_URIS_MAX)
    return [{ code: 'too_many', message: `At most ${REDIRECT_URIS_MAX} redirect_uris are possible`, field }];
  if (redirectUris.length === 0 && !trusted)
    return [{ code: 'required', message: 'A client needs at least one redirect_uri', field }];
  return redirectUris.flatMap((uri) => {
    const reason = whyNotRegistrable(uri);
    return reason === undefined ? [] : [{ code: 'invalid_redirect_uri', message: `The redirect_uri ${reason}`, field }];
  });
};

/**
 * Registers a client; the secret is in the answer and nowhere else. Throws a 400 with every fault found, and a 409 where
 * the `clientId` is taken.
 */
export const createClient = async (
  sql: Queryable,
  client: NewClient,
): Promise<{ client_id: string; client_secret: string }> => {
  const clientId = client.clientId ?? randomBytes(12).toString('hex');
  const faults = [
    ...(isClientId(clientId) ? [] : textFaults('client_id', '', 1, 64)),
    ...textFaults('name', client.name, 1, 255),
    ...textFaults('company', client.company, 0, 255),
    ...textFaults('description', client.description, 0, 1_000),
    ...redirectUriFaults(client),
  ];
  if (faults.length > 0) throw invalid(...faults);
  const secret = mintToken('clientSecret');
  const isNew = await insertClient(sql, {
    clientId,
    name: client.name,
    company: client.company ?? null,
    description: client.description ?? null,
    redirectUris: [...new Set(client.redirectUris)],
    trusted: client.trusted,
    secretHash: secret.hash,
    now: client.now,
  });
  if (isNew) return { client_id: clientId, client_secret: secret.value };
  throw new Problem(409, { code: 'client_id_taken', message: 'Another client has this client_id', field: 'client_id' });
};
