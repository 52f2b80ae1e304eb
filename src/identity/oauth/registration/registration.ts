/** Registration of clients by programs: POST /register (RFC 7591), its management (RFC 7592), and the tokens that allow it. */
import { originOf, recordAuditEntry } from '#identity/accounts/audit.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { createToken, hashToken, looksLike, type Bearer } from '../oauth-tokens.ts';
import { findAuthenticatedClient } from '../grants-sql.ts';
import { deleteRegistrationToken, insertRegistrationToken, isRegistrationToken } from '../oauth-sql.ts';
import { isFresh } from '#identity/accounts/signed-in.ts';
import type { People } from '#identity/accounts/people.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import type { Bucket, Throttle } from '#identity/accounts/throttle.ts';
import { bearerTokenOf } from '#http/caller.ts';
import { REALM } from '#http/root.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { isSameOrigin } from '#http/requests.ts';
import { Problem, type Fault, temporary, suspended } from '#core/problem.ts';
import { jsonAnswer } from '#http/answers.ts';
import { MEMBERS_MAX, parseJson } from '#http/bodies/json-body.ts';
import { isClientId } from '../protocol-requests.ts';
import {
  type AppWebhooks,
  type Caller,
  callerOf,
  type ClientActor,
  createClient,
  UNUSED_DAYS,
} from '../clients/clients.ts';
import { findClient, findManagedClient, replaceManagementToken, type Client } from '../clients/clients-sql.ts';
import { toErrorDescription } from '../oauth-errors.ts';
import {
  fault,
  metadataOfClient,
  readMetadata,
  registered,
  type Metadata,
  type MetadataInput,
  type ReadMetadata,
} from './registration-metadata.ts';
import { changeClient, removeClient } from '../clients/client-change.ts';
import { settingsHash } from '../clients/client-fields.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { AppsDeps } from '../grants.ts';

const DAY_MS = 86_400_000;
/** Bytes of the hash that name a registration token (the initial access token of RFC 7591 §1.2) in the audit. */
const MARK_BYTES = 8;

/** Returns the id of a token for the audit: the beginning of its hash, in hex. It grants no access. */
const idOfHash = (hash: Buffer): string => hash.subarray(0, MARK_BYTES).toString('hex');

/** Returns the id of a token, by which it appears in the audit and can be revoked. */
export function idOfInvitation(token: string): string {
  return idOfHash(hashToken(token));
}

/** Creates a registration token. Only its hash is stored. */
export function createRegistrationToken(sql: Sql, { days, now }: { days: number; now: Date }): Promise<string> {
  return transaction(sql, async (tx) => {
    const { value, hash } = createToken('registrationToken');
    await insertRegistrationToken(tx, { hash, now, expires: new Date(now.getTime() + days * DAY_MS) });
    const detail = { registration_token: idOfHash(hash), days };
    await recordAuditEntry(tx, { action: 'registration_token_created', userId: null, origin: null, detail, now });
    return value;
  });
}

/** Revokes a token, given itself or its id, and returns the id; undefined if there is no such token. */
export function revokeRegistrationToken(sql: Sql, which: string, now: Date): Promise<string | undefined> {
  return transaction(sql, async (tx) => {
    const id = looksLike('registrationToken', which) ? idOfInvitation(which) : which;
    if (!(await deleteRegistrationToken(tx, id))) return undefined;
    const detail = { registration_token: id };
    await recordAuditEntry(tx, { action: 'registration_token_revoked', userId: null, origin: null, detail, now });
    return id;
  });
}

const INVALID_CHALLENGE = `${REALM}, error="invalid_token"`;

const unauthorized = (message: string, challenge: string): Problem =>
  new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': challenge } });

/** `token` is a registration token, `anonymous` an open registration; both are throttled. */
type Registrar =
  | { kind: 'platform'; caller: Caller | undefined }
  | { kind: 'user'; userId: number }
  | ({ kind: 'token'; caller: Caller } & Throttled)
  | ({ kind: 'anonymous' } & Throttled);
type Throttled = {
  /** Returns the throttle token of a request that created no client. */ giveBack: () => Promise<void>;
};

async function takeFrom(throttle: Throttle, bucket: Bucket, now: Date): Promise<Throttled> {
  const taken = await throttle.take([bucket], now);
  if (taken.allowed) return { giveBack: taken.giveBack };
  const source = bucket.limit === 'registration by token' ? 'with this token' : 'from this address';
  const message = `Too many clients were registered ${source}; try again later`;
  throw temporary(429, { code: 'too_many_requests', message }, taken.retryAfterSeconds);
}

async function byToken(sql: Sql, throttle: Throttle, bearer: Bearer, token: string, now: Date): Promise<Registrar> {
  if (looksLike('registrationToken', token)) {
    if (!(await isRegistrationToken(sql, hashToken(token), now)))
      throw unauthorized('The registration token is unknown or has expired', INVALID_CHALLENGE);
    const id = idOfInvitation(token);
    const throttled = await takeFrom(throttle, { limit: 'registration by token', subject: id }, now);
    return { kind: 'token', caller: { registration_token: id }, ...throttled };
  }
  const { scope, clientId, publicClientId } = await bearer(token, now);
  if (scope === 'platform') return { kind: 'platform', caller: callerOf(clientId, publicClientId) };
  const message = 'Registering a client needs a registration token or a token with the scope platform';
  const headers = { 'WWW-Authenticate': `${REALM}, error="insufficient_scope", scope="platform"` };
  throw new Problem(403, { code: 'insufficient_scope', message }, { headers });
}

async function anonymously(isOpen: boolean, throttle: Throttle, request: RawRequest): Promise<Registrar> {
  const { address, now } = request;
  if (!isOpen)
    throw unauthorized('Registering a client needs a registration token of the operator, as a bearer token', REALM);
  const bucket = { limit: 'registration from address', subject: addressPrefix(address) } as const;
  return { kind: 'anonymous', ...(await takeFrom(throttle, bucket, now)) };
}

/**
 * Returns the registrar. Throws a 401 or 403 with a challenge if registration is not permitted, and a 429 if it is
 * throttled.
 */
async function registrarOf(runtime: Runtime, people: People, bearer: Bearer, request: RawRequest): Promise<Registrar> {
  const { sql, config } = runtime;
  const { authUrl, oauth } = config;
  const { sessions, throttle } = people;
  const token = bearerTokenOf(request.headers['authorization']);
  if (token !== undefined) return byToken(sql, throttle, bearer, token, request.now);
  // Browsers send the session cookie with requests of any page, so it is accepted only from the pages of this origin.
  const session = isSameOrigin(request.headers, new URL(authUrl).origin) ? await sessions.find(request) : null;
  if (session === null) return anonymously(oauth.openRegistration, throttle, request);
  if (!session.isEmailVerified) {
    const message = 'Confirm your e-mail address first: choose a new password with a link that is mailed to it';
    throw new Problem(403, { code: 'email_not_verified', message });
  }
  if (isFresh(session, request.now)) return { kind: 'user', userId: session.userId };
  const message = `Confirm that it is you at ${authUrl}/account/confirm, then register within ten minutes`;
  throw new Problem(403, { code: 'confirmation_required', message });
}

/** Returns the members with which a client manages its registration (RFC 7592 §3). */
function management(authUrl: string, clientId: string, token: string) {
  return { registration_client_uri: `${authUrl}/register/${clientId}`, registration_access_token: token };
}

function refused(faults: readonly Pick<Fault, 'message' | 'field'>[]): RawResponse {
  return jsonAnswer(400, {
    error: faults.some(({ field }) => field === 'redirect_uris') ? 'invalid_redirect_uri' : 'invalid_client_metadata',
    error_description: toErrorDescription(faults.map(({ message }) => message).join('; ')),
  });
}

const malformed = (message: string): Fault => ({ code: 'malformed_body', message });

/** Parses the body. A body that is not a JSON object is a fault too. */
function readBody({ bytes, contentType, now }: RawRequest): ReadMetadata {
  const nothing = (message: string) => ({ ...readMetadata({}, now), faults: [malformed(message)] });
  if (!/^application\/json\s*(;|$)/i.test(contentType)) return nothing('Send the metadata as application/json');
  try {
    const value = parseJson(bytes, { membersMax: MEMBERS_MAX });
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
function networkOf({ address }: Pick<RawRequest, 'address'>): string {
  return `address ${addressPrefix(address)}`;
}

/**
 * The response contains the registered metadata and the secret, which does not expire (RFC 7591 §3.2.1) and is not returned
 * again. An error response lists all faults of the metadata.
 */
export function createRegister(runtime: Runtime, people: People, deps: AppsDeps): RawHandler {
  const { appWebhooks, bearer } = deps;
  const { sql, config } = runtime;
  const { clientsPerUser } = config.oauth;
  return async (request) => {
    const { now } = request;
    const registrar = await registrarOf(runtime, people, bearer, request);
    const { metadata, faults: read } = readBody(request);
    const faults = [...read, ...(await appWebhooks.faultsOf(metadata.webhookUrl))];
    if (faults.length > 0) {
      if ('giveBack' in registrar) await registrar.giveBack();
      return refused(faults);
    }
    const asker = registrar.kind === 'user' ? `user ${registrar.userId}` : networkOf(request);
    const notAllowed = await appWebhooks.consentFaults(metadata.webhookUrl, asker);
    if (notAllowed.length > 0) return refused(notAllowed);
    const token = createToken('managementToken');
    const { authMethod, ...details } = metadata;
    const made = await createClient(sql, {
      ...details,
      declare: appWebhooks.declare,
      isPublic: authMethod === 'none',
      trusted: false,
      // The platform is trusted to verify its clients; all others state unverified details.
      isVerified: registrar.kind === 'platform',
      owner: registrar.kind === 'user' ? { userId: registrar.userId, clientsPerUser } : undefined,
      unusedUntil: 'giveBack' in registrar ? new Date(now.getTime() + UNUSED_DAYS * DAY_MS) : undefined,
      caller: 'caller' in registrar ? registrar.caller : undefined,
      origin: originOf(request),
      managementTokenHash: token.hash,
      now,
    });
    const credentials = { ...made, ...(made.client_secret !== undefined && { client_secret_expires_at: 0 }) };
    const issued = { client_id_issued_at: Math.floor(now.getTime() / 1_000) };
    const managed = management(config.authUrl, made.client_id, token.value);
    const row = metadata.webhookUrl === null ? undefined : await findClient(sql, made.client_id);
    const webhookKeys = row === undefined ? null : await appWebhooks.keysOf(sql, row.id, now);
    return jsonAnswer(201, { ...credentials, ...issued, ...managed, ...registered(metadata, webhookKeys) });
  };
}

/** A client with the token that it presented. */
type Managed = { client: Client; token: string };

/** Members that only the server sets (RFC 7592 §2.2). */
const NOT_ACCEPTED = [
  'registration_access_token',
  'registration_client_uri',
  'client_secret_expires_at',
  'client_id_issued_at',
];

const wrongToken = (): Problem =>
  unauthorized('The registration access token is not that of this client, or was replaced', INVALID_CHALLENGE);

/** Returns the client. Throws the same 401 for a wrong token and an unknown client (RFC 7592 §2), and a 403 for a suspended one. */
async function managedBy(sql: Sql, { headers, params }: RawRequest): Promise<Managed> {
  const token = bearerTokenOf(headers['authorization']);
  const { client_id: clientId = '' } = params;
  if (token === undefined)
    throw unauthorized('Send the registration access token in the header Authorization: Bearer <token>', REALM);
  if (!looksLike('managementToken', token) || !isClientId(clientId)) throw wrongToken();
  const client = await findManagedClient(sql, clientId, hashToken(token));
  if (client === undefined) throw wrongToken();
  if (client.suspendedReason !== null) throw suspended('app', client.suspendedReason);
  return { client, token };
}

const actorOf = ({ clientId }: Client, request: RawRequest): ClientActor => ({
  userId: null,
  caller: { itself: clientId },
  origin: originOf(request),
  now: request.now,
});

/** Responds with the registration; it never contains the secret, of which only the hash is stored. */
async function describe(
  { sql, config }: Runtime,
  appWebhooks: AppWebhooks,
  { id, clientId, dateCreated }: Client,
  { token, metadata, now }: { token: string; metadata: Metadata; now: Date },
): Promise<RawResponse> {
  return jsonAnswer(200, {
    client_id: clientId,
    client_id_issued_at: Math.floor(dateCreated.getTime() / 1_000),
    ...management(config.authUrl, clientId, token),
    ...registered(metadata, await appWebhooks.keysOf(sql, id, now)),
  });
}

/** Returns the faults of the members that a replacement may not change. */
async function identityFaults(
  sql: Sql,
  client: Client,
  { input, metadata, now }: { input: MetadataInput; metadata: Metadata; now: Date },
): Promise<Fault[]> {
  const faults = NOT_ACCEPTED.filter((name) => Object.hasOwn(input, name)).map((name) =>
    fault(name, 'must not be sent'),
  );
  if (input['client_id'] !== client.clientId) faults.push(fault('client_id', 'must be that of the client'));
  if ((metadata.authMethod === 'none') !== client.isPublic)
    faults.push(fault('token_endpoint_auth_method', 'must stay with a secret or without one'));
  const { client_secret: secret } = input;
  if (secret === undefined) return faults;
  const claim = { clientId: client.clientId, secretHash: typeof secret === 'string' ? hashToken(secret) : null, now };
  if ((await findAuthenticatedClient(sql, claim)) === undefined)
    faults.push(fault('client_secret', 'must be a valid secret of the client, or absent'));
  return faults;
}

async function replace(runtime: Runtime, appWebhooks: AppWebhooks, request: RawRequest): Promise<RawResponse> {
  const { sql } = runtime;
  const { client, token } = await managedBy(sql, request);
  const { metadata: read, faults, input } = readBody(request);
  // A program that does not know this extension must not take away what the owner of the app has chosen.
  const { requiresPkce } = (input['requires_pkce'] ?? undefined) === undefined ? metadataOfClient(client) : read;
  const metadata = { ...read, requiresPkce };
  const isMoved = metadata.webhookUrl !== client.webhookUrl;
  const all = [
    ...faults,
    ...(isMoved ? await appWebhooks.faultsOf(metadata.webhookUrl) : []),
    ...(await identityFaults(sql, client, { input, metadata, now: request.now })),
  ];
  if (all.length > 0) return refused(all);
  const notAllowed = isMoved ? await appWebhooks.consentFaults(metadata.webhookUrl, networkOf(request)) : [];
  if (notAllowed.length > 0) return refused(notAllowed);
  const { authMethod: _, ...changed } = metadata;
  const next = createToken('managementToken');
  const change = { ...client, ...changed };
  await transaction(sql, async (tx) => {
    const isReplaced = await replaceManagementToken(tx, { id: client.id, from: hashToken(token), to: next.hash });
    if (!isReplaced) throw wrongToken();
    const actor = { ...actorOf(client, request), baseHash: settingsHash(client) };
    await changeClient({ sql: tx, appWebhooks }, client, change, actor);
  });
  return describe(runtime, appWebhooks, client, { token: next.value, metadata, now: request.now });
}

/** GET, PUT and DELETE /register/<client_id> (RFC 7592): a client reads, replaces and deletes its registration, with the token of it. */
export function createManagement(runtime: Runtime, deps: AppsDeps): Record<'read' | 'replace' | 'remove', RawHandler> {
  const { effects, appWebhooks } = deps;
  const { sql } = runtime;
  return {
    read: async (request) => {
      const { client, token } = await managedBy(sql, request);
      return describe(runtime, appWebhooks, client, { token, metadata: metadataOfClient(client), now: request.now });
    },
    replace: (request) => replace(runtime, appWebhooks, request),
    remove: async (request) => {
      const { client } = await managedBy(sql, request);
      await removeClient(sql, effects, client.clientId, actorOf(client, request));
      return { status: 204, headers: { 'Cache-Control': 'no-store' }, body: '' };
    },
  };
}
