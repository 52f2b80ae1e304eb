/**
 * GET, PUT and DELETE /register/<client_id> (RFC 7592): a registered client reads, replaces and deletes its registration, with the token
 * of its registration.
 */
import { originOf } from '#identity/accounts/audit/audit.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import { bearerTokenOf } from '#http/caller.ts';
import { REALM } from '#http/challenge.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { Problem, type Fault } from '#core/problem.ts';
import { changeClient, removeClient, settingsHash } from '../clients/change.ts';
import type { AppWebhooks } from '../clients/app-webhook.ts';
import { isClientId } from '../clients/clients.ts';
import { findManagedClient, replaceManagementToken, type Client } from '../clients/clients-sql.ts';
import type { ClientActor } from '../clients/action.ts';
import type { RevocationEffects } from '../grant-changes.ts';
import { findAuthenticatedClient } from '../oauth-sql.ts';
import { createToken, hashToken, looksLike } from '../tokens.ts';
import { fault, metadataOfClient, registered, type Metadata, type MetadataInput } from './metadata.ts';
import { management, networkOf, readBody, refused } from './register.ts';

type Deps = RevocationEffects & { appWebhooks: AppWebhooks; sql: Sql; authUrl: string };

/** A client with the token that it presented. */
type Managed = { client: Client; token: string };

/** Members that only the server sets (RFC 7592 §2.2). */
const NOT_ACCEPTED = [
  'registration_access_token',
  'registration_client_uri',
  'client_secret_expires_at',
  'client_id_issued_at',
];

const unauthorized = (message: string, challenge: string): Problem =>
  new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': challenge } });

const noToken = (): Problem =>
  unauthorized('Send the registration access token in the header Authorization: Bearer <token>', REALM);

const wrongToken = (): Problem =>
  unauthorized(
    'The registration access token is not that of this client, or was replaced',
    `${REALM}, error="invalid_token"`,
  );

/** Returns the client. Throws the same 401 for a wrong token and an unknown client (RFC 7592 §2). */
async function managedBy({ sql }: Deps, { headers, params }: RawRequest): Promise<Managed> {
  const token = bearerTokenOf(headers['authorization']);
  const { client_id: clientId = '' } = params;
  if (token === undefined) throw noToken();
  if (!looksLike('managementToken', token) || !isClientId(clientId)) throw wrongToken();
  const client = await findManagedClient(sql, clientId, hashToken(token));
  if (client === undefined) throw wrongToken();
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
  { sql, appWebhooks, authUrl }: Deps,
  { id, clientId, dateCreated }: Client,
  { token, metadata, now }: { token: string; metadata: Metadata; now: Date },
): Promise<RawResponse> {
  return jsonAnswer(200, {
    client_id: clientId,
    client_id_issued_at: Math.floor(dateCreated.getTime() / 1_000),
    ...management(authUrl, clientId, token),
    ...registered(metadata, await appWebhooks.keysOf(sql, id, now)),
  });
}

/** Returns the faults of the members that a replacement may not change. */
async function identityFaults(
  { sql }: Deps,
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

async function replace(deps: Deps, request: RawRequest): Promise<RawResponse> {
  const { client, token } = await managedBy(deps, request);
  const { metadata: read, faults, input } = readBody(request);
  // A program that does not know this extension must not take away what the owner of the app has chosen.
  const { requiresPkce } = (input['requires_pkce'] ?? undefined) === undefined ? metadataOfClient(client) : read;
  const metadata = { ...read, requiresPkce };
  const isMoved = metadata.webhookUrl !== client.webhookUrl;
  const all = [
    ...faults,
    ...(isMoved ? await deps.appWebhooks.faultsOf(metadata.webhookUrl) : []),
    ...(await identityFaults(deps, client, { input, metadata, now: request.now })),
  ];
  if (all.length > 0) return refused(all);
  const notAllowed = isMoved ? await deps.appWebhooks.consentFaults(metadata.webhookUrl, networkOf(request)) : [];
  if (notAllowed.length > 0) return refused(notAllowed);
  const { authMethod: _, ...changed } = metadata;
  const next = createToken('managementToken');
  const change = { ...client, ...changed };
  await transaction(deps.sql, async (tx) => {
    const isReplaced = await replaceManagementToken(tx, { id: client.id, from: hashToken(token), to: next.hash });
    if (!isReplaced) throw wrongToken();
    const actor = { ...actorOf(client, request), baseHash: settingsHash(client) };
    await changeClient({ ...deps, sql: tx }, client, change, actor);
  });
  return describe(deps, client, { token: next.value, metadata, now: request.now });
}

export function createManagement(deps: Deps): Record<'read' | 'replace' | 'remove', RawHandler> {
  return {
    read: async (request) => {
      const { client, token } = await managedBy(deps, request);
      return describe(deps, client, { token, metadata: metadataOfClient(client), now: request.now });
    },
    replace: (request) => replace(deps, request),
    remove: async (request) => {
      const { client } = await managedBy(deps, request);
      await removeClient(deps, client.clientId, actorOf(client, request));
      return { status: 204, headers: { 'Cache-Control': 'no-store' }, body: '' };
    },
  };
}
