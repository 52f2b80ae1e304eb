/** POST /register (RFC 7591): authorizes the registration, validates the metadata and creates the client. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import { addressPrefix } from '#identity/accounts/throttle/prefix.ts';
import { jsonAnswer } from '#http/answers.ts';
import { parseJson } from '#http/bodies/json-body.ts';
import type { RawResponse, RawHandler, RawRequest } from '#http/route.ts';
import { Problem, type Fault } from '#core/problem.ts';
import type { AppKeys, AppWebhooks } from '../clients/app-webhook.ts';
import { createClient, createPublicClient, type NewClient } from '../clients/clients.ts';
import { findClient } from '../clients/clients-sql.ts';
import { toErrorDescription } from '../errors.ts';
import { createToken } from '../tokens.ts';
import { readMetadata, registered, type Metadata, type ReadMetadata } from './metadata.ts';
import { registrarOf, type Registrar, type RegistrarDeps } from './registrar.ts';

const DAY_MS = 86_400_000;
/** Days until a client without a responsible user or platform is deleted if it has received no grant. */
const UNUSED_DAYS = 30;

export type RegisterDeps = RegistrarDeps & { appWebhooks: AppWebhooks; clientsPerUser: number };

/** Returns the members with which a client manages its registration (RFC 7592 §3). */
export function management(authUrl: string, clientId: string, token: string) {
  return { registration_client_uri: `${authUrl}/register/${clientId}`, registration_access_token: token };
}

export function refused(faults: readonly Pick<Fault, 'message' | 'field'>[]): RawResponse {
  return jsonAnswer(400, {
    error: faults.some(({ field }) => field === 'redirect_uris') ? 'invalid_redirect_uri' : 'invalid_client_metadata',
    error_description: toErrorDescription(faults.map(({ message }) => message).join('; ')),
  });
}

const malformed = (message: string): Fault => ({ code: 'malformed_body', message });

/** Parses the body. A body that is not a JSON object is a fault too. */
export function readBody({ bytes, contentType, now }: RawRequest): ReadMetadata {
  const nothing = (message: string) => ({ ...readMetadata({}, now), faults: [malformed(message)] });
  if (!/^application\/json\s*(;|$)/i.test(contentType)) return nothing('Send the metadata as application/json');
  try {
    const value = parseJson(bytes);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject
      ? readMetadata(value as Record<string, unknown>, now)
      : nothing('The metadata must be a JSON object');
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return nothing(error.message);
  }
}

/** Returns what handshakes of clients are counted by: their network, because a client can register again. */
export function networkOf({ address }: Pick<RawRequest, 'address'>): string {
  return `address ${addressPrefix(address)}`;
}

const clientOf = (
  { clientsPerUser, appWebhooks: { declare } }: RegisterDeps,
  registrar: Registrar,
  { webhookUrl, authMethod: _, ...details }: Metadata,
  request: RawRequest,
  managementTokenHash: Buffer,
): NewClient => ({
  ...details,
  managementTokenHash,
  webhook: webhookUrl === null ? null : { url: webhookUrl, declare },
  trusted: false,
  // The platform is trusted to verify its clients; all others state unverified details.
  isVerified: registrar.kind === 'platform',
  owner: registrar.kind === 'user' ? { userId: registrar.userId, clientsPerUser } : undefined,
  unusedUntil: 'giveBack' in registrar ? new Date(request.now.getTime() + UNUSED_DAYS * DAY_MS) : undefined,
  caller: 'caller' in registrar ? registrar.caller : undefined,
  origin: originOf(request),
  now: request.now,
});

/** Returns the keys of the webhook that was registered; null without one. */
async function registeredKeys(
  { sql, appWebhooks }: RegisterDeps,
  clientId: string,
  { webhookUrl }: Metadata,
  now: Date,
): Promise<AppKeys | null> {
  const client = webhookUrl === null ? undefined : await findClient(sql, clientId);
  return client === undefined ? null : appWebhooks.keysOf(sql, client.id, now);
}

/**
 * The response contains the registered metadata and the secret, which does not expire (RFC 7591 §3.2.1) and is not returned
 * again. An error response lists all faults of the metadata.
 */
export function createRegister(deps: RegisterDeps): RawHandler {
  return async (request) => {
    const registrar = await registrarOf(deps, request);
    const { metadata, faults: read } = readBody(request);
    const faults = [...read, ...(await deps.appWebhooks.faultsOf(metadata.webhookUrl))];
    if (faults.length > 0) {
      if ('giveBack' in registrar) await registrar.giveBack();
      return refused(faults);
    }
    const asker = registrar.kind === 'user' ? `user ${registrar.userId}` : networkOf(request);
    const notAllowed = await deps.appWebhooks.consentFaults(metadata.webhookUrl, asker);
    if (notAllowed.length > 0) return refused(notAllowed);
    const token = createToken('managementToken');
    const client = clientOf(deps, registrar, metadata, request, token.hash);
    const isPublic = metadata.authMethod === 'none';
    const credentials = isPublic
      ? await createPublicClient(deps.sql, client)
      : { ...(await createClient(deps.sql, client)), client_secret_expires_at: 0 };
    const issued = { client_id_issued_at: Math.floor(request.now.getTime() / 1_000) };
    const managed = management(deps.authUrl, credentials.client_id, token.value);
    const webhookKeys = await registeredKeys(deps, credentials.client_id, metadata, request.now);
    return jsonAnswer(201, { ...credentials, ...issued, ...managed, ...registered(metadata, webhookKeys) });
  };
}
