/** Clients as the platform makes, reads and deletes them: {base_url}/clients. */
import { Type, type Static } from 'typebox';
import { originOf } from '#accounts/audit/audit.ts';
import type { Sql } from '#database/pool.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { type Params } from '#http/route.ts';
import { refuseParameters } from '#hypermedia/parameters.ts';
import { notFound } from '#kernel/problem.ts';
import { removeClient } from '../change.ts';
import type { Doer } from '../deed.ts';
import { createClient, createPublicClient, isClientId, newClientFaults, type NewClient } from '../clients.ts';
import { findClient, type Client } from '../queries.ts';
import { addressOfClient, clientDocument } from './document.ts';

type Deps = { sql: Sql; baseUrl: string; authUrl: string; clientsPerUser: number };

const clearableText = () => Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'] }));
/** A form has no booleans, so their texts count too. */
const flag = () => Type.Optional(Type.Unsafe<Flag>({ enum: [true, false, 'true', 'false', '1', '0', 1, 0] }));
type Flag = boolean | 'true' | 'false' | '1' | '0' | 1 | 0;
/** Taken back with whatever value it was read, and ignored. */
const readOnly = () => Type.Optional(Type.Unknown({ readOnly: true }));

const input = Type.Object(
  {
    name: Type.String(),
    company: clearableText(),
    description: clearableText(),
    contact: clearableText(),
    redirect_uris: Type.Optional(Type.Array(Type.String())),
    /** The id of the person whose app it is. */
    owner: Type.Optional(Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 1, maximum: 2 ** 53 - 1 })),
    is_public: flag(),
    is_verified: flag(),
    is_legacy: flag(),
    rotates_refresh_tokens: flag(),
    client_id: readOnly(),
    client_secret: readOnly(),
    /** The operator's to say, on the machine itself: a token that lasts two hours makes nothing that outlives it so far. */
    is_trusted: readOnly(),
    logo: readOnly(),
    date_created: readOnly(),
    date_modified: readOnly(),
  },
  { additionalProperties: false },
);

type Body = Static<typeof input>;

const isSet = (value: Flag | undefined): boolean => [true, 'true', '1', 1].includes(value ?? false);

const clientOf = ({ clientsPerUser }: Deps, body: Partial<Body>): Omit<NewClient, 'now'> => ({
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

const clientIn = async (sql: Sql, params: Params): Promise<Client> => {
  const clientId = params['client_id'] ?? '';
  const client = isClientId(clientId) ? await findClient(sql, clientId) : undefined;
  if (client === undefined) throw notFound('client');
  return client;
};

const doerOf = (request: Pick<ApiRequest, 'principal' | 'address' | 'headers' | 'now'>): Doer => {
  const { clientId } = request.principal;
  const caller = clientId === null ? undefined : { by_client: clientId };
  return { userId: null, caller, origin: originOf(request), now: request.now };
};

const create = (deps: Deps) => async (request: ApiRequest<Body>) => {
  refuseParameters(request.query, []);
  const { sql, baseUrl } = deps;
  const { caller, origin, now } = doerOf(request);
  const client = { ...clientOf(deps, request.body), caller, origin, now };
  const made: { client_id: string; client_secret?: string } = isSet(request.body.is_public)
    ? await createPublicClient(sql, client)
    : await createClient(sql, client);
  const row = await clientIn(sql, made);
  const document = clientDocument(row, { ...deps, clientSecret: made.client_secret ?? null });
  return { status: 201, document, location: addressOfClient(made.client_id, baseUrl), isSecret: true } as const;
};

export const createClientOperations = (deps: Deps): Record<'create' | 'read' | 'remove', Operation> => ({
  create: accepting({
    summary: 'Makes a client; its client_secret is in this answer and in none after it',
    access: 'platform',
    input,
    review: async ({ body, now }) => newClientFaults({ ...clientOf(deps, body), now }, isSet(body.is_public)),
    handle: create(deps),
  }),
  read: guarded({
    summary: 'One client, without its secret',
    access: 'platform',
    handle: async ({ params, query }) => {
      refuseParameters(query, []);
      const document = clientDocument(await clientIn(deps.sql, params), { ...deps, clientSecret: null });
      return { status: 200, document };
    },
  }),
  remove: guarded({
    summary: 'Deletes a client; all that people have allowed it ends at once',
    access: 'platform',
    handle: async (request) => {
      const { clientId } = await clientIn(deps.sql, request.params);
      await removeClient(deps.sql, clientId, doerOf(request));
      return { status: 204 };
    },
  }),
});
