/**
 * The API operations on clients: {base_url}/clients, {base_url}/users/<id>/clients and {base_url}/clients/<id>/installs. Only
 * the platform creates and deletes them.
 */
import { actorOf } from '#changelog/changelog.ts';
import { originOf } from '#identity/accounts/audit.ts';
import { findUser } from '#identity/accounts/users-sql.ts';
import { type Queryable, transaction, type Tx } from '#db/pool.ts';
import { changeOrMake, keyedIds, keyOf, replaceKey } from '#http/external-keys.ts';
import { findKeyed } from '#http/external-keys-sql.ts';
import { isSet } from '#http/inputs.ts';
import { creating } from '#http/idempotency.ts';
import { type Listed, listing } from '#http/list-operation.ts';
import {
  accepting,
  type ApiRequest,
  guarded,
  type Operation,
  type OperationResult,
  withPrincipal,
} from '#http/operation.ts';
import { idIn } from '#http/route.ts';
import type { Listing } from '#core/listing.ts';
import { platformClient, reachesAccount } from '#core/principal.ts';
import { conflict, type Fault, invalid, invalidValue, notFound } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { type AppsDeps, INSTALL_PROPERTIES, type RevocationEffects } from '../grants.ts';
import { grantStoreAccess } from '../oauth-tokens.ts';
import { permissionsForStore } from '../scope.ts';
import { changeClient, changeFaults, removeClient, urlFaults, versionOf } from './client-change.ts';
import {
  type AppWebhooks,
  callerOf,
  type ClientActor,
  COMMAND_LINE_CLIENT,
  createClient,
  type NewClient,
  newClientFaults,
  recordClientEntry,
} from './clients.ts';
import type { EachDatabase } from '#shards/map.ts';
import { type Client, findClient, findClientOfId, lockClient, markVerified, touchClient } from './clients-sql.ts';
import {
  addressOfClient,
  addressOfInstalls,
  clientDocument,
  installDocument,
  type Secrets,
} from './client-document.ts';
import { countClients, countInstalls, listClients, listInstalls } from './client-lists-sql.ts';
import {
  CLIENT_PROPERTIES,
  type ClientPart,
  clientSchemas,
  type ClientSettings,
  newClientSchema,
  type NewClientBody,
  parseSettings,
  settingsHash,
} from './client-fields.ts';
import { isDeepStrictEqual } from 'node:util';

type ClientRequest = Pick<ApiRequest, 'params' | 'principal'>;

const clientOf = (
  { config: { oauth } }: Runtime,
  { declare }: AppWebhooks,
  body: ClientPart,
): Omit<NewClient, 'now'> => ({
  ...parseSettings(body),
  declare,
  isPublic: isSet(body.is_public),
  trusted: false,
  owner: typeof body.owner === 'number' ? { userId: body.owner, clientsPerUser: oauth.clientsPerUser } : undefined,
  isVerified: isSet(body.is_verified ?? true),
  isLegacy: isSet(body.is_legacy),
});

/**
 * Returns the client of the request. The platform sees all clients, a user and an app with access to the whole account the
 * user's own, an app for one store none. Throws a 404 otherwise.
 */
async function clientFor(sql: Queryable, { params, principal }: ClientRequest): Promise<Client> {
  const client = await findClient(sql, params['client_id'] ?? '', platformClient(principal));
  const isOwn = client !== undefined && client.ownerId !== null && reachesAccount(principal, client.ownerId);
  if (client === undefined || (principal.scope !== 'platform' && !isOwn)) throw notFound('client');
  return client;
}

function clientActorOf(request: Pick<ApiRequest, 'principal' | 'address' | 'headers' | 'now'>): ClientActor {
  const { clientId, publicClientId } = request.principal;
  const caller = callerOf(clientId, publicClientId);
  return { userId: null, caller, origin: originOf(request), now: request.now };
}

/** Returns what handshakes of the platform are counted by. */
const askerOf = ({ principal }: Pick<ApiRequest, 'principal'>): string => `client ${principal.publicClientId}`;

/** Returns the faults of a body that asks for tokens, or says when their access ends. */
function accessFaults({ store, access_days: days, owner, scopes }: NewClientBody): Fault[] {
  if (store === undefined)
    return days === undefined ? [] : [invalidValue('access_days', 'access_days needs store: the access that ends')];
  return [
    ...(typeof owner === 'number'
      ? []
      : [invalidValue('owner', 'store needs an owner: a member of it, for whom the app acts')]),
    ...(permissionsForStore(scopes || null) === undefined
      ? [invalidValue('scopes', 'store needs a scope for a store')]
      : []),
  ];
}

function creationFaults(
  runtime: Runtime,
  appWebhooks: AppWebhooks,
  { body, now }: Pick<ApiRequest<NewClientBody>, 'body' | 'now'>,
  asker?: string,
): Promise<Fault[]> {
  const faults = [...newClientFaults({ ...clientOf(runtime, appWebhooks, body), now }), ...accessFaults(body)];
  return urlFaults(appWebhooks, faults, body.webhook_url || null, { asker });
}

/** `secrets`: those that Halcyon has made, which no later response shows. */
type MadeClient = { row: Client; secrets?: Secrets };

const DAY_MS = 86_400_000;

/** Returns the tokens for the store that the body names; undefined if it names none. */
async function tokensFor(
  tx: Tx,
  { config: { oauth, accounts } }: Runtime,
  effects: RevocationEffects,
  { request: { body, principal, now }, clientId }: { request: ApiRequest<NewClientBody>; clientId: string },
): Promise<Secrets['tokens']> {
  const { store: storeId, access_days: days, owner: userId, scopes } = body;
  const permissions = permissionsForStore(scopes || null);
  if (storeId === undefined || typeof userId !== 'number' || permissions === undefined) return undefined;
  const ends = days === undefined ? null : new Date(now.getTime() + days * DAY_MS);
  const who = { clientId, userId, storeId, requiresFactor: accounts.requiresSecondFactor };
  return grantStoreAccess(tx, effects, oauth, { ...who, permissions, ends, actor: actorOf(principal), now });
}

async function addIn(
  tx: Tx,
  runtime: Runtime,
  { appWebhooks, effects }: Pick<AppsDeps, 'appWebhooks' | 'effects'>,
  request: ApiRequest<NewClientBody>,
): Promise<MadeClient> {
  const { caller, origin, now } = clientActorOf(request);
  const client = { ...clientOf(runtime, appWebhooks, request.body), caller, origin, now };
  const made = await createClient(tx, client);
  const row = await findClient(tx, made.client_id);
  if (row === undefined) throw new Error('The inserted client was not found');
  const keys = await appWebhooks.keysOf(tx, row.id, now);
  const tokens = await tokensFor(tx, runtime, effects, { request, clientId: made.client_id });
  const secrets = { clientSecret: made.client_secret ?? null, webhookKey: keys?.current ?? null, tokens };
  return { row: { ...row, externalId: request.body.external_id || null }, secrets };
}

/** A body that changes a client. `isWhole`: settings that it does not name get their initial values. */
type ClientBody = { body: ClientPart; isWhole?: boolean };

/** Returns the settings of the client after applying the body. */
function changeOf(client: Client, { body, isWhole = false }: ClientBody): ClientSettings {
  const change = isWhole ? parseSettings(body) : parseSettings(body, client);
  return {
    ...change,
    redirectUris: [...new Set(change.redirectUris)],
    // A public client always rotates and must use PKCE.
    rotatesRefreshTokens: client.isPublic || change.rotatesRefreshTokens,
    requiresPkce: !client.isPublic && change.requiresPkce,
  };
}

/** Returns the faults of members that never change, and differ. Sending the current value is allowed. */
function fixedFaults(client: Client, body: ClientPart): Fault[] {
  const isOther = {
    is_public: isSet(body.is_public ?? client.isPublic) !== client.isPublic,
    is_legacy: isSet(body.is_legacy ?? client.isLegacy) !== client.isLegacy,
    owner: body.owner !== undefined && body.owner !== client.ownerId,
    // Only what a person or the app itself changes makes it unverified.
    is_verified: client.isVerified && !isSet(body.is_verified ?? true),
  };
  return Object.entries(isOther).flatMap(([field, differs]) =>
    differs ? [invalidValue(field, `${field} cannot be changed: omit it or send its current value`)] : [],
  );
}

const OF_OPERATOR = 'Only the operator changes this client: it is built in, or one of the platform';

/**
 * Checks a change: before its transaction, where the endpoint of another url is asked for `asker` whether it agrees, and again with the
 * locked row. Throws a 400 with all faults, and a 409 for a client of the operator.
 */
async function requireValid(
  appWebhooks: AppWebhooks,
  client: Client,
  sent: ClientBody & { asker?: string },
): Promise<void> {
  if (client.trusted || client.clientId === COMMAND_LINE_CLIENT) throw conflict('client_of_operator', OF_OPERATOR);
  const { asker } = sent;
  const known = fixedFaults(client, sent.body);
  const faults = await changeFaults(appWebhooks, client, changeOf(client, sent), { known, asker });
  if (faults.length > 0) throw invalid(...faults);
}

/** Changes a client whose row it locks; a POST has no `unmodified`. Returns undefined if the client does not exist. Throws the errors of `changeClient`. */
async function changeClientIn(
  tx: Tx,
  appWebhooks: AppWebhooks,
  id: number,
  {
    principal,
    unmodified,
    actor,
    ...sent
  }: ClientBody & Pick<ApiRequest, 'principal'> & Partial<Pick<ApiRequest, 'unmodified'>> & { actor: ClientActor },
): Promise<MadeClient | undefined> {
  const reader = platformClient(principal);
  const { now } = actor;
  const { body, isWhole } = sent;
  const client = await lockClient(tx, id, reader);
  if (client === undefined) return undefined;
  unmodified?.(versionOf(client));
  await requireValid(appWebhooks, client, sent);
  const key = body.external_id === '' || (isWhole && body.external_id === undefined) ? null : body.external_id;
  if (reader !== null && key !== undefined && key !== client.externalId) {
    await replaceKey(tx, { client: reader, resource: 'client', id, key });
    await touchClient(tx, id, { userId: null, now });
  }
  if (!client.isVerified && body.is_verified !== undefined && isSet(body.is_verified)) {
    await markVerified(tx, client.clientId, now);
    const detail = { name: client.name, changed: ['is_verified'] };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  }
  const change = changeOf(client, sent);
  if (!isDeepStrictEqual(change, changeOf(client, { body: {} })))
    await changeClient({ sql: tx, appWebhooks }, client, change, { ...actor, baseHash: settingsHash(client) });
  const row = (await lockClient(tx, id, reader)) ?? client;
  const isFirstUrl = client.webhookUrl === null && row.webhookUrl !== null;
  const keys = isFirstUrl ? await appWebhooks.keysOf(tx, id, now) : null;
  return { row, ...(keys && { secrets: { clientSecret: null, webhookKey: keys.current } }) };
}

const creation = (runtime: Runtime, deps: Pick<AppsDeps, 'appWebhooks' | 'effects'>): Operation => {
  const { appWebhooks } = deps;
  return creating({
    title: 'Create a client',
    summary:
      'Creates a client, or changes the one with the external_id; only the response that creates it contains its client_secret, and the tokens for its store, and only the one that gives it a webhook_url its webhook_key',
    access: 'platform',
    statuses: [200, 201],
    input: newClientSchema(),
    review: (request) => creationFaults(runtime, appWebhooks, request),
    prepare: async (request) => {
      const { body, principal } = request;
      const asker = askerOf(request);
      const key = keyOf(principal, 'client', body.external_id);
      const id = key && (await findKeyed(runtime.sql, key));
      const known = id === undefined ? undefined : await findClientOfId(runtime.sql, id);
      if (known !== undefined) return requireValid(appWebhooks, known, { body, asker });
      const faults = await creationFaults(runtime, appWebhooks, request, asker);
      if (faults.length > 0) throw invalid(...faults);
    },
    make: async (tx, request) => {
      const { config } = runtime;
      const { body, principal } = request;
      const { external_id: externalId, ...settings } = body;
      const { row, isKnown, secrets } = await changeOrMake<MadeClient>(tx, keyOf(principal, 'client', externalId), {
        change: (id) =>
          changeClientIn(tx, appWebhooks, id, { principal, body: settings, actor: clientActorOf(request) }),
        make: () => addIn(tx, runtime, deps, request),
      });
      return {
        document: clientDocument(row, config, (await appWebhooks.progressOf([row.id])).get(row.id), secrets),
        location: addressOfClient(row.clientId, config.baseUrl),
        isSecret: true,
        ...(isKnown && { isKnown }),
      };
    },
  });
};

async function page(
  { sql, config }: Runtime,
  appWebhooks: AppWebhooks,
  { owner, path }: { owner: number | null; path: string },
  { principal, listing: query }: Pick<ApiRequest, 'principal'> & { listing: Listing },
): Promise<Listed> {
  const ids = await keyedIds(sql, { principal, resource: 'client', filters: query.filters });
  const shown = { owner, ids, reader: platformClient(principal) };
  const [rows, total] = await Promise.all([listClients(sql, shown, query), countClients(sql, shown, query)]);
  const progress = await appWebhooks.progressOf(rows.map(({ id }) => id));
  return {
    path,
    items: rows.map((row) => clientDocument(row, config, progress.get(row.id))),
    total,
  };
}

/** Returns PATCH, and PUT, which gives settings that the body does not name their initial values. */
function createChanges(runtime: Runtime, appWebhooks: AppWebhooks): Record<'patch' | 'replace', Operation> {
  const { sql, config } = runtime;
  const { whole, part } = clientSchemas();
  const described = {
    isConditional: true,
    access: 'platform',
    admit: async (request: ApiRequest) => void (await clientFor(sql, request)),
  } as const;
  const handle = async (request: ApiRequest<ClientPart>, isWhole: boolean): Promise<OperationResult> => {
    const client = await clientFor(sql, request);
    await requireValid(appWebhooks, client, { body: request.body, isWhole, asker: askerOf(request) });
    const changed = await transaction(sql, (tx) =>
      changeClientIn(tx, appWebhooks, client.id, { ...request, isWhole, actor: clientActorOf(request) }),
    );
    if (changed === undefined) throw notFound('client');
    const { row, secrets } = changed;
    const progress = (await appWebhooks.progressOf([row.id])).get(row.id);
    const document = clientDocument(row, config, progress, secrets);
    return { status: 200, document, ...(secrets && { isSecret: true as const }) };
  };
  return {
    patch: accepting({
      ...described,
      title: 'Change the client',
      summary: 'Changes the properties that are sent and keeps the others; requires the scope platform',
      input: part,
      handle: (request) => handle(request, false),
    }),
    replace: accepting({
      ...described,
      title: 'Replace the client',
      summary: 'Replaces all properties that can change; requires the scope platform',
      input: whole,
      handle: (request) => handle(request, true),
    }),
  };
}

const installsOf = ({ sql, config: { baseUrl } }: Runtime, eachDatabase: EachDatabase): Operation =>
  listing({
    summary: 'Lists the stores and accounts that an app has access to',
    scopes: 'account',
    rel: 'installs',
    title: 'Installs',
    properties: INSTALL_PROPERTIES,
    handle: async (request) => {
      const { id, clientId, name } = await clientFor(sql, request);
      const { listing: query, principal } = request;
      const [rows, total] = await Promise.all([
        listInstalls(sql, eachDatabase, id, query),
        countInstalls(sql, id, query),
      ]);
      const items = rows.map((row) => installDocument(row, { clientId, principal, baseUrl }));
      const links = [{ rel: 'client', href: addressOfClient(clientId, baseUrl), title: 'The app', crumb: name }];
      return { path: addressOfInstalls(clientId, baseUrl), items, total, links };
    },
  });

export function createClientOperations(runtime: Runtime, deps: AppsDeps) {
  const { effects, appWebhooks, eachDatabase } = deps;
  const { sql, config } = runtime;
  const { baseUrl } = config;
  return {
    list: listing({
      summary: 'Lists all clients; requires the scope platform',
      access: 'platform',
      rel: 'clients',
      title: 'All clients',
      properties: CLIENT_PROPERTIES,
      handle: (request) => page(runtime, appWebhooks, { owner: null, path: `${baseUrl}/clients` }, request),
    }),
    listOfUser: listing({
      summary: 'Lists the apps created by a user',
      scopes: 'account',
      rel: 'clients',
      title: 'Apps',
      properties: CLIENT_PROPERTIES,
      handle: async (request) => {
        const userId = idIn(request, 'user_id', 'user');
        if (!reachesAccount(request.principal, userId) || (await findUser(sql, userId)) === undefined)
          throw notFound('user');
        return page(runtime, appWebhooks, { owner: userId, path: `${baseUrl}/users/${userId}/clients` }, request);
      },
    }),
    create: creation(runtime, deps),
    read: guarded({
      summary: 'Returns a client, without its secret',
      scopes: 'account',
      handle: async (request) => {
        const client = await clientFor(sql, request);
        const progress = await appWebhooks.progressOf([client.id]);
        return { status: 200, document: clientDocument(client, config, progress.get(client.id)) };
      },
    }),
    ...createChanges(runtime, appWebhooks),
    installs: installsOf(runtime, eachDatabase),
    remove: {
      ...guarded({
        title: 'Delete the client',
        isConditional: true,
        summary: 'Deletes a client and revokes all its grants immediately; requires the scope platform',
        access: 'platform',
        handle: async (request) => {
          const { clientId } = await clientFor(sql, request);
          await removeClient(sql, effects, clientId, { ...clientActorOf(request), unmodified: request.unmodified });
          return { status: 204, next: `${baseUrl}/clients` };
        },
      }),
      admit: async (request) => void (await clientFor(sql, withPrincipal(request))),
    } satisfies Operation,
  };
}
