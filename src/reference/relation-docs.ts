/** Joins each relation with the operations of its addresses, for pages, documents and OpenAPI. */
import { documentedBody, fieldsOf } from '#http/actions.ts';
import type { Operation } from '#http/operation.ts';
import type { Chapter, Endpoint, Relation } from '#http/relation.ts';
import { METHODS, type Method, type Params, type Resource, type Route } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Comparisons } from '#core/listing.ts';
import type { SufficientScopes } from '#core/principal.ts';
import { LIMITS, OFFSETS } from '#hypermedia/paging.ts';
import type { Document, Field, Kind, Naming, Property } from '#hypermedia/document.ts';

/** A method of an address. */
export type MethodDoc = {
  method: Method;
  title: string;
  summary: string;
  access: Operation['access'];
  /** The limited scopes that suffice; `any` of them for some reads. */
  scopes: SufficientScopes;
  fields: readonly Field[];
  modifiers: readonly string[];
  /** For listings: how the properties of the items are compared; with `isOpen` they have others as well. */
  properties: Comparisons;
  isOpen: boolean;
  /** The properties that `fields` may name; none if any. */
  selects: readonly string[];
};

/** An address with its parameters in braces, the path of its route below `{base_url}`, and its methods. */
export type AddressDoc = { path: string; address: string; methodDocs: readonly MethodDoc[] };

export type RelationDoc = Omit<Relation, 'example' | 'paths' | 'variants' | 'results'> & {
  chapter: string;
  addressDocs: readonly AddressDoc[];
  endpoints: readonly Endpoint[];
  example: Document | undefined;
  variants: readonly Document[];
  results: Document | undefined;
};

export type RelationDocs = { chapters: readonly Chapter[]; byRel: ReadonlyMap<string, RelationDoc> };

/** Returns the properties to sort and filter by. */
export function comparableOf({ properties }: Pick<MethodDoc, 'properties'>): string[] {
  return Object.keys(properties).filter((name) => properties[name] !== 'none');
}

/** Describes a method. `given` contains path parameters with a fixed value. */
export function methodDocOf(method: Method, operation: Operation, given: Params = {}): MethodDoc {
  const closed = operation.closedAt?.(given);
  const properties = closed ?? operation.properties ?? {};
  const isOpen = operation.isOpen && closed === undefined;
  return {
    method,
    title: operation.title,
    summary: operation.summary,
    access: operation.access,
    // The address of a template stands for all its resources.
    scopes: Object.keys(given).length === 0 ? operation.scopes : (operation.scopesAt?.(given) ?? operation.scopes),
    fields: fieldsOf(documentedBody(operation)),
    modifiers: operation.modifiers,
    properties,
    isOpen,
    selects:
      operation.selects ?? (isOpen ? [] : Object.keys(properties).filter((name) => properties[name] !== 'filterOnly')),
  };
}

const methodDocsOf = ({ operations }: Resource, given: Params | undefined): MethodDoc[] =>
  METHODS.flatMap((method) => {
    const operation = operations[method];
    return operation === undefined ? [] : [methodDocOf(method, operation, given)];
  });

/** Returns a path as a template: `:webhook_id` becomes `{webhook_id}`, or its value in `given`. */
export function templateOf(path: string, given: Readonly<Record<string, string>> = {}): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => given[name] ?? `{${name}}`);
}

/** Returns the route path of a relation's address. */
const routePathOf = (path: string, root: string): string => (path === '/' ? root || '/' : root + path);

/** Adds the statuses for bodies that no endpoint reads, as the resources have them. */
const withBodyFaults = (endpoint: Endpoint): Endpoint => {
  const { method, answers } = endpoint;
  if (method === 'GET') return endpoint;
  const { 413: tooLarge = '', 415: unsupported = '' } = ERROR_MEANINGS;
  return { ...endpoint, answers: { 413: tooLarge, 415: unsupported, ...answers } };
};

/** Describes every relation of every chapter, by name. */
export function describeRelations(
  described: readonly Chapter[],
  routes: readonly Route[],
  naming: Naming,
): RelationDocs {
  const root = rootOf(naming.baseUrl);
  const resources = new Map(routes.flatMap((route) => (route.kind === 'resource' ? [[route.path, route]] : [])));
  const chapters = described.map((chapter) => ({
    ...chapter,
    endpoints: chapter.endpoints?.map(withBodyFaults) ?? [],
  }));
  const endpoints = chapters.flatMap((chapter) => chapter.endpoints);
  const relationDoc = chapters.flatMap((chapter) =>
    chapter.relations.map(({ example, paths = [], variants = [], results, ...relation }): [string, RelationDoc] => {
      const { rel, given } = relation;
      const addressDocs = paths.map((path): AddressDoc => {
        const route = resources.get(routePathOf(path, root));
        const address = naming.baseUrl + templateOf(path, given);
        return { path, address, methodDocs: route === undefined ? [] : methodDocsOf(route, given) };
      });
      const own = endpoints.filter((endpoint) => endpoint.rel === rel);
      const documents = {
        example: example?.(naming),
        variants: variants.map((variant) => variant(naming)),
        results: results?.(naming),
      };
      return [rel, { ...relation, chapter: chapter.title, addressDocs, endpoints: own, ...documents }];
    }),
  );
  return { chapters, byRel: new Map(relationDoc) };
}

const ACCESS: Readonly<Record<Operation['access'], string>> = {
  anyone: 'Anyone, with or without a token.',
  token: 'A token with full access to the store or user',
  person: 'The signed-in person, and no program.',
  self: 'A token with the scope platform, signed-in owners of the store, or the person themselves.',
  owner: 'A token with the scope platform, or signed-in owners of the store.',
  platform: 'A token with the scope platform.',
};

/** Returns who may use an operation, with the limited scopes that suffice. */
export function accessText({ access, scopes }: Pick<Operation, 'access' | 'scopes'>): string {
  if (access !== 'token') return ACCESS[access];
  if (scopes === 'any') return `${ACCESS.token}, or with any limited scope for it.`;
  if (scopes === 'account') return 'With a token for the account of the user, or of the platform.';
  return scopes.length === 0 ? `${ACCESS.token}.` : `${ACCESS.token}, or with one of the scopes ${scopes.join(', ')}.`;
}

const KINDS: Readonly<Record<Kind, string>> = {
  text: 'text',
  number: 'number',
  count: 'count',
  boolean: 'boolean',
  date: 'date',
  url: 'URL',
  code: 'text',
  secret: 'secret text',
  enumeration: 'enumeration',
  money: 'amount of money',
  json: 'object',
  progress: 'number',
  trend: 'list of numbers',
};

/** Returns the type of a field: `text`, or `list of text`. */
export function kindOf({ kind, isMultiple }: Pick<Field, 'kind' | 'isMultiple'>): string {
  return isMultiple ? `list of ${KINDS[kind]}` : KINDS[kind];
}

/** Returns the type of a property; for properties of publishers according to the example value. */
export function kindOfProperty({ kind, value }: Property): string {
  if (kind !== 'json') return KINDS[kind];
  if (Array.isArray(value)) return 'list';
  if (value === null) return 'anything';
  return { string: 'text', number: 'number', boolean: 'boolean' }[typeof value as string] ?? 'object';
}

function range(min: number | undefined, max: number | undefined, unit: string): string | undefined {
  if (min === undefined && max === undefined) return undefined;
  if (min === undefined) return `at most ${max}${unit}`;
  return max === undefined || max >= Number.MAX_SAFE_INTEGER ? `at least ${min}${unit}` : `${min} to ${max}${unit}`;
}

/** Returns the constraints of a field according to its schema; empty without any. */
export function constraintsOf({ minLength, maxLength, minimum, maximum, choices }: Field): string {
  return [
    range(minLength, maxLength, ' characters'),
    range(minimum, maximum, ''),
    choices === undefined ? undefined : `one of ${choices.join(', ')}`,
  ]
    .filter((part) => part !== undefined)
    .join('; ');
}

const MODIFIERS: Readonly<Record<string, string>> = {
  offset: `The number of items to skip (default ${OFFSETS.fallback}).`,
  limit: `The number of items per page, ${LIMITS.min} to ${LIMITS.max} (default ${LIMITS.fallback}).`,
  order: 'The properties to sort by, separated by commas, each with an optional " desc".',
  fields: 'The properties to return, separated by commas.',
  links: 'The links to return, by their relations without prefix, separated by commas: self is the shortest.',
  dry_run: '1: returns the results, and writes nothing.',
  attempt: 'The number of the attempt whose request is shown (default: the last one).',
  period: 'The period of the statistics: 24h, 7d or 30d (default 24h).',
  zoom: 'The relations to embed, separated by commas; a colon separates levels.',
};

/** Returns the description of a parameter; undefined for one that only a single operation has. */
export function aboutModifier(name: string): string | undefined {
  return Object.hasOwn(MODIFIERS, name) ? MODIFIERS[name] : undefined;
}

/** Meanings of error statuses. */
export const ERROR_MEANINGS: Readonly<Record<string, string>> = {
  '400': 'The request is invalid: the version header, a parameter, or the body',
  '401': 'The token is missing, expired or revoked',
  '403': 'The scope of the token does not permit this',
  '404': 'The resource does not exist, or you have no access to it',
  '410': 'The platform has deleted the resource (code `deleted`); the message has the date',
  '406': 'No format that Accept allows is available',
  '409': 'A limit or the current state does not permit it',
  '412': 'The resource has changed since you read it',
  '413': 'The body is too large',
  '415': 'The format of the body is not supported',
  '422': 'The Idempotency-Key was used for another body',
  '429': 'Too many requests',
  '503': 'The service is temporarily unavailable',
};
