/** Clients over the API: {base_url}/clients and {base_url}/users/<id>/clients. The platform makes and deletes them. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import { findUser } from '#identity/accounts/accounts-sql.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import { isSet } from '#http/inputs.ts';
import { creating } from '#http/creating.ts';
import { listing, type Listed } from '#http/listing.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { parseId } from '#core/ids.ts';
import type { Listing } from '#core/listing.ts';
import { reachesAccount } from '#core/principal.ts';
import { notFound } from '#core/problem.ts';
import type { AfterGrants } from '../../grant-changes.ts';
import { removeClient } from '../change.ts';
import { createClient, createPublicClient, isClientId, newClientFaults, type NewClient } from '../clients.ts';
import { callerOf, type Doer } from '../action.ts';
import { findClient, findOwnClient, type Client } from '../clients-sql.ts';
import { addressOfClient, CLIENT_PROPERTIES, clientDocument } from './document.ts';
import { countClients, listClients } from './clients-page-sql.ts';
import { newClient, type NewClientBody } from './schema.ts';

type Deps = AfterGrants & { sql: Sql; baseUrl: string; authUrl: string; clientsPerUser: number };
type Asked = Pick<ApiRequest, 'params' | 'principal'>;

const clientOf = ({ clientsPerUser }: Deps, body: Partial<NewClientBody>): Omit<NewClient, 'now'> => ({
  // A name that the schema refused is missing here, and has its fault already.
  name: body.name ?? '',
  company: body.company,
  description: body.description,
  contact: body.contact,
  redirectUris: body.redirect_uris ?? [],
  trusted: false,
  owner: typeof body.owner === 'number' ? { userId: body.owner, clientsPerUser } : undefined,
  isVerified: isSet(body.is_verified ?? true),
  rotatesRefreshTokens: isSet(body.rotates_refresh_tokens),
  isLegacy: isSet(body.is_legacy),
});

/** The platform sees all, a person their own, and so does an app for their whole account: no app for one store sees any. */
const clientFor = async (sql: Queryable, { params, principal }: Asked): Promise<Client> => {
  const clientId = params['client_id'] ?? '';
  const { scope, userId } = principal;
  const find = async (): Promise<Client | undefined> => {
    if (!isClientId(clientId)) return undefined;
    if (scope === 'platform') return findClient(sql, clientId);
    return userId !== null && reachesAccount(principal, userId) ? findOwnClient(sql, clientId, userId) : undefined;
  };
  const client = await find();
  if (client === undefined) throw notFound('client');
  return client;
};

const doerOf = (request: Pick<ApiRequest, 'principal' | 'address' | 'headers' | 'now'>): Doer => {
  const { clientId, publicClientId } = request.principal;
  const caller = callerOf(clientId, publicClientId);
  return { userId: null, caller, origin: originOf(request), now: request.now };
};

const creation = (deps: Deps): Operation =>
  creating({
    title: 'Make a client',
    summary: 'Makes a client; its client_secret is in this answer and in none after it',
    access: 'platform',
    input: newClient,
    review: async ({ body, now }) => newClientFaults({ ...clientOf(deps, body), now }, isSet(body.is_public)),
    prepare: async () => {},
    make: async (tx, request) => {
      const { caller, origin, now } = doerOf(request);
      const client = { ...clientOf(deps, request.body), caller, origin, now };
      const made: { client_id: string; client_secret?: string } = isSet(request.body.is_public)
        ? await createPublicClient(tx, client)
        : await createClient(tx, client);
      const row = await findClient(tx, made.client_id);
      if (row === undefined) throw new Error('A client that was just made is not there');
      const document = clientDocument(row, { ...deps, clientSecret: made.client_secret ?? null });
      return { document, location: addressOfClient(made.client_id, deps.baseUrl), isSecret: true };
    },
  });

const page = async (deps: Deps, owner: number | null, path: string, wanted: Listing): Promise<Listed> => {
  const { sql } = deps;
  const [rows, total] = await Promise.all([listClients(sql, owner, wanted), countClients(sql, owner, wanted)]);
  return { path, items: rows.map((row) => clientDocument(row, { ...deps, clientSecret: null })), total };
};

export const createClientOperations = (
  deps: Deps,
): Record<'list' | 'listOfUser' | 'create' | 'read' | 'remove', Operation> => ({
  list: listing({
    summary: 'All clients, a page at a time; needs the scope platform',
    access: 'platform',
    rel: 'clients',
    title: 'All clients',
    properties: CLIENT_PROPERTIES,
    handle: (request) => page(deps, null, `${deps.baseUrl}/clients`, request.listing),
  }),
  listOfUser: listing({
    summary: 'The apps that a person has made, a page at a time',
    rel: 'clients',
    title: 'Apps',
    properties: CLIENT_PROPERTIES,
    handle: async ({ params, principal, listing: wanted }) => {
      const userId = parseId(params['user_id'] ?? '');
      const isSeen = userId !== undefined && reachesAccount(principal, userId);
      if (!isSeen || (await findUser(deps.sql, userId)) === undefined) throw notFound('user');
      return page(deps, userId, `${deps.baseUrl}/users/${userId}/clients`, wanted);
    },
  }),
  create: creation(deps),
  read: guarded({
    summary: 'One client, without its secret',
    handle: async (request) => {
      const client = await clientFor(deps.sql, request);
      return { status: 200, document: clientDocument(client, { ...deps, clientSecret: null }) };
    },
  }),
  remove: guarded({
    title: 'Delete the client',
    isConditional: true,
    summary: 'Deletes a client; all that people have allowed it ends at once; needs the scope platform',
    access: 'platform',
    handle: async (request) => {
      const { clientId } = await clientFor(deps.sql, request);
      await removeClient(deps, clientId, { ...doerOf(request), unmodified: request.unmodified });
      return { status: 204, next: `${deps.baseUrl}/clients` };
    },
  }),
});
