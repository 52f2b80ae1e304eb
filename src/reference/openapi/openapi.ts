/** OpenAPI 3.1 description of the API, generated from routes, schemas and examples. */
import { METHODS, type Resource, type Route } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { rootElement } from '#hypermedia/render.ts';
import { API_VERSION } from '#http/caller.ts';
import { mediaTypesOf } from '#http/bodies/body.ts';
import { isBodyOptional } from '#http/bodies/validate.ts';
import type { Endpoint } from '#http/relation.ts';
import { selectionOf, type Naming, type Value } from '#hypermedia/document.ts';
import { methodDocOf, templateOf, type MethodDoc, type RelationDoc, type RelationDocs } from '../relation-docs.ts';
import type { Setting, SentRequests } from '../setting.ts';
import { responseHeaders, responsesOf, errorResponse, examplesOf, refer } from './openapi-responses.ts';
import {
  bodySchema,
  headerParameters,
  headersFor,
  pathParameters,
  plainSchema,
  queryParameters,
  requestBody,
  resultsOf,
  schemasOf,
  type Json,
  usedComponents,
} from './input.ts';

// Integers for compilers of clients, which write a 32-bit type unless the schema has a format.

/** Largest value of a 32-bit integer. */
const INT32_MAX = 2 ** 31 - 1;

const isExample = (name: string): boolean => name === 'example' || name === 'examples';

/** Returns a schema for each type of a union: generators lose the format of a union. */
const alternatives = (types: readonly Value[]): Value[] =>
  types.map((type) => (type === 'integer' ? { type, format: 'int64' } : { type }));

/**
 * Returns a part of the description with `format: int64` for every integer that may be larger than 32 bits, such as ids,
 * which are below 2^53.
 */
function widenIntegers(part: Json): Json {
  const widened = Object.fromEntries(
    Object.entries(part).map(([name, member]) => [name, isExample(name) ? member : widenMember(member)]),
  );
  const { type, ...rest } = widened;
  if (Number(rest['maximum'] ?? Infinity) <= INT32_MAX) return widened;
  const types: readonly Value[] = Array.isArray(type) ? type : [type ?? null];
  if (!types.includes('integer')) return widened;
  const isUnion = types.some((one) => one !== 'integer' && one !== 'null');
  return isUnion ? { ...rest, anyOf: alternatives(types) } : { ...widened, format: 'int64' };
}

function widenMember(value: Value): Value {
  if (Array.isArray(value)) return (value as readonly Value[]).map(widenMember);
  return typeof value === 'object' && value !== null ? widenIntegers(value as Json) : value;
}

// The section `webhooks` of OpenAPI 3.1: the requests that a receiver gets.

/**
 * A tag of their own: openapi-generator makes a class for each tag of `paths`, which the class for an equal tag of `webhooks`
 * overwrites.
 */
const RECEIVING = 'Receiving';

function receivingTag({ baseUrl }: Naming): Json {
  return { name: RECEIVING, description: `Requests that webhooks send: ${baseUrl}/docs/receiving.` };
}

const parameterName = (header: string): string => `delivery.${header.toLowerCase()}`;

/** Returns the headers of deliveries as parameters, by name. */
function deliveryParameters({ headers }: SentRequests): Json {
  return Object.fromEntries(
    headers.map(({ name, about, type, isOptional }): [string, Json] => [
      parameterName(name),
      { name, in: 'header', description: about, required: isOptional !== true, schema: { type } },
    ]),
  );
}

const deliveryResponses: Json = {
  '2XX': { description: 'Received' },
  '410': { description: 'The webhook is disabled' },
  default: { description: 'The request is sent again' },
};

/** Returns the request of each event; its body has the members that the `query` of the webhook selects. */
function webhooksOf({ sentRequests, eventTypes }: Pick<Setting, 'sentRequests' | 'eventTypes'>): Json {
  const { headers, contentType, encryptedType } = sentRequests;
  const parameters = headers.map(({ name }) => ({ $ref: `#/components/parameters/${parameterName(name)}` }));
  return Object.fromEntries(
    eventTypes.map(({ event, when, resource: { type } }): [string, Json] => {
      const payload = {
        schema: { $ref: `#/components/schemas/${selectionOf(type)}` },
        examples: { [type]: { $ref: `#/components/examples/${type}.0` } },
      };
      const encrypted = { schema: { type: 'string', description: 'A JWE of the body, over plain http.' } };
      const post = {
        operationId: `on_${event.replace('/', '_')}`,
        summary: event,
        description: `Sent to webhooks that subscribe to ${event}: ${when}`,
        tags: [RECEIVING],
        security: [],
        parameters,
        requestBody: { required: true, content: { [contentType]: payload, [encryptedType]: encrypted } },
        responses: deliveryResponses,
      };
      return [event, { post }];
    }),
  );
}

/** Returns a unique name that is an identifier in every language: `patch_webhooks_webhook_id`. */
const operationId = (method: string, path: string): string =>
  [method.toLowerCase(), ...(path.match(/\w+/g) ?? ['home'])].join('_');

/** The scopes that no operation names, because they suffice for all that a token can do. */
const FULL = ['store_full_access', 'user_full_access', 'platform'];

function security({ access, scopes }: MethodDoc, all: readonly string[]): Json[] {
  if (access === 'anyone') return [{}, { bearer: [] }];
  const ofToken = { any: all, account: ['user_full_access', 'platform'] };
  const limited = typeof scopes === 'string' ? ofToken[scopes] : [...FULL, ...scopes];
  const sufficient = access === 'token' ? limited : ['platform'];
  return [...sufficient.map((scope): Json => ({ oauth2: [scope] })), { bearer: [] }];
}

type Context = { relationDocs: RelationDocs; setting: Setting };

function resourceItem(route: Resource, path: string, relations: readonly RelationDoc[], context: Context): Json {
  const { setting, relationDocs } = context;
  const [relation] = relations;
  const made = relation?.makes?.map((rel) => relationDocs.byRel.get(rel)) ?? [relation];
  const given = relations.flatMap((one) => (one.given === undefined ? [] : [one.given]));
  const operations = METHODS.flatMap((method): [string, Json][] => {
    const operation = route.operations[method];
    if (operation === undefined) return [];
    const methodDoc = methodDocOf(method, operation);
    const { input } = operation;
    const responseContext = { path, relations, makes: made.filter((one) => one !== undefined), operation };
    const described = {
      operationId: operationId(method, path),
      summary: methodDoc.title,
      description: methodDoc.summary,
      tags: [relation?.chapter ?? 'Other'],
      security: security(methodDoc, Object.keys(setting.scopes)),
      parameters: [...(route.isDocumentation ? [] : headersFor(method, operation)), ...queryParameters(methodDoc)],
      ...(input !== undefined && {
        requestBody: requestBody(
          { $ref: `#/components/schemas/${operationId(method, path)}` },
          {
            required: !isBodyOptional(method, operation),
            mediaTypes: mediaTypesOf({ takesLines: operation.documentedInput?.areIndependent === true }),
          },
        ),
      }),
      responses: responsesOf(methodDoc, responseContext),
    };
    return [[method.toLowerCase(), described]];
  });
  return { parameters: pathParameters(path, given), ...Object.fromEntries(operations) };
}

const MEDIA_TYPES = { form: 'application/x-www-form-urlencoded', json: 'application/json' } as const;

function endpointParameters(takes: Endpoint['takes']): Json[] {
  if (takes?.in !== 'query') return [];
  const { properties = {}, required = [] } = plainSchema(takes.schema) as { properties?: Json; required?: string[] };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }));
}

const isByClient = (takes: Endpoint['takes']): boolean =>
  takes !== undefined && Object.hasOwn((plainSchema(takes.schema)['properties'] ?? {}) as Json, 'client_secret');

/** Returns the content of a response of a protocol endpoint; redirects and deletions have none. */
function contentOfEndpoint(status: string, { method, returns, fails, example }: Endpoint): Json {
  const isSuccess = status.startsWith('2');
  const schema = isSuccess ? returns : fails;
  if (schema === undefined || status.startsWith('3') || (isSuccess && method === 'DELETE')) return {};
  if (schema === 'errors') return refer('responses', 'errors');
  if (schema === 'page') return { content: { 'text/html': { schema: { type: 'string' } } } };
  const shown = isSuccess && example !== undefined ? { example } : {};
  return { content: { 'application/json': { schema: plainSchema(schema), ...shown } } };
}

/** Describes a protocol endpoint, with a server of its own if the authorization server has another address. */
function endpointItem(endpoint: Endpoint, tag: string, { naming }: Setting): [path: string, item: Json] {
  const { address, method, title, summary, takes, answers, specification } = endpoint;
  const isOfApi = address.startsWith(`${naming.baseUrl}/`);
  const { origin, pathname } = new URL(address);
  const path = isOfApi ? address.slice(naming.baseUrl.length) : pathname;
  const responses = Object.entries(answers).map(([status, description]) => [
    status,
    { ...contentOfEndpoint(status, endpoint), description },
  ]);
  const operation = {
    operationId: operationId(method, path),
    summary: title,
    description: `${summary} (${specification}).`,
    tags: [tag],
    security: isByClient(takes) ? [{ client: [] }, {}] : [{}],
    parameters: [...pathParameters(path.replaceAll(/\{(\w+)\}/g, ':$1'), []), ...endpointParameters(takes)],
    ...(takes !== undefined &&
      takes.in !== 'query' && {
        requestBody: requestBody(plainSchema(takes.schema), { mediaTypes: [MEDIA_TYPES[takes.in]] }),
      }),
    responses: Object.fromEntries(responses) as Json,
  };
  return [path, { ...(!isOfApi && { servers: [{ url: origin }] }), [method.toLowerCase()]: operation }];
}

function securitySchemes({ naming, authUrl, scopes }: Setting): Json {
  const tokenUrl = `${naming.baseUrl}/token`;
  const { platform = '', ...ofPeople } = scopes;
  return {
    oauth2: {
      type: 'oauth2',
      flows: {
        authorizationCode: {
          authorizationUrl: `${authUrl}/authorize`,
          tokenUrl,
          refreshUrl: tokenUrl,
          scopes: ofPeople,
        },
        clientCredentials: { tokenUrl, scopes: { platform } },
      },
    },
    bearer: { type: 'http', scheme: 'bearer', description: 'An access token.' },
    client: { type: 'http', scheme: 'basic', description: 'client_id and client_secret.' },
  };
}

/** Returns the path below `{base_url}`. */
const pathBelow = (root: string, { path }: Route): string => path.slice(root.length) || '/';

/** Returns the body schema of each operation, by operation id. */
const inputsOf = (routes: readonly Route[], root: string): Json =>
  Object.fromEntries(
    routes.flatMap((route) =>
      METHODS.flatMap((method): [string, Json][] => {
        const operation = route.kind === 'resource' ? route.operations[method] : undefined;
        const schema = operation && bodySchema(operation);
        return schema === undefined
          ? []
          : [[operationId(method, pathBelow(root, route)), { ...schema, ...rootElement }]];
      }),
    ),
  );

/** Merges endpoints with the same path and different methods. */
function mergePaths(items: readonly (readonly [path: string, item: Json])[]): Json {
  const paths: Record<string, Json> = {};
  for (const [path, item] of items) paths[path] = { ...paths[path], ...item };
  return paths;
}

export function openApi(routes: readonly Route[], context: Context): Json {
  const { relationDocs, setting } = context;
  const { naming, versionHeader } = setting;
  const root = rootOf(naming.baseUrl);
  const relations = [...relationDocs.byRel.values()];
  const resources = routes.flatMap((route): [string, Json][] => {
    if (route.kind !== 'resource') return [];
    const path = pathBelow(root, route);
    const relationsOfPath = relations.filter(({ addressDocs }) =>
      addressDocs.some((addressDoc) => addressDoc.path === path),
    );
    // What only people do in a browser is no interface for programs.
    const isOfPeople = Object.values(route.operations).every(({ access }) => access === 'person');
    return isOfPeople ? [] : [[templateOf(path), resourceItem(route, path, relationsOfPath, context)]];
  });
  const endpoints = relationDocs.chapters.flatMap((chapter) =>
    (chapter.endpoints ?? []).map((endpoint) => endpointItem(endpoint, chapter.title, setting)),
  );
  const errors = relationDocs.byRel.get('errors');
  if (errors === undefined) throw new Error('The relation errors is not documented');
  const paths = mergePaths([...resources, ...endpoints]);
  const webhooks = webhooksOf(setting);
  const responses = { errors: errorResponse(errors) };
  const roots = { paths, webhooks, responses };
  const documents = [...relations, ...relations.flatMap(resultsOf)];
  const schemas = { ...schemasOf(documents, naming), ...inputsOf(routes, root) };
  return widenIntegers({
    openapi: '3.1.0',
    info: {
      title: 'Halcyon',
      version: API_VERSION,
      license: { name: 'MIT', identifier: 'MIT' },
      description: `Getting started: ${naming.baseUrl}/docs. Link relations: ${naming.baseUrl}/rels.`,
    },
    externalDocs: { url: `${naming.baseUrl}/docs` },
    servers: [{ url: naming.baseUrl }],
    tags: [
      ...relationDocs.chapters.map(({ title, about: description }) => ({ name: title, description })),
      receivingTag(naming),
    ],
    paths,
    webhooks,
    components: {
      schemas: usedComponents('schemas', schemas, roots),
      parameters: { ...headerParameters(versionHeader), ...deliveryParameters(setting.sentRequests) },
      headers: responseHeaders,
      responses,
      examples: usedComponents('examples', examplesOf(documents, naming), roots),
      securitySchemes: securitySchemes(setting),
    },
  });
}
