/**
 * Derives the actions of a resource and their fields from the schemas that validate its requests. The target of an address is the resource
 * of its route or, for an action route, the resource that it acts on.
 */
import { randomBytes } from 'node:crypto';
import type { TSchema } from 'typebox';
import type { Action, Document, Field, Kind, Value } from '#hypermedia/document.ts';
import type { Caller } from './caller.ts';
import { hasPermission, isPerson, ownsStore, type Principal } from '#core/principal.ts';
import type { Hints } from './inputs.ts';
import type { Operation } from './operation.ts';
import { METHODS, type Method, type Params, type Resource, type Route } from './route.ts';
import type { FastifyRequest } from 'fastify';
import { parseId } from '#core/ids.ts';
import type { Run } from './resource.ts';
import type { Services } from './services.ts';
import { pathOf } from './requests.ts';

/** Keywords of JSON Schema and the hints of inputs.ts. */
type Schema = Omit<Hints, 'default'> & {
  type?: string | readonly string[];
  enum?: readonly unknown[];
  items?: Schema;
  readOnly?: boolean;
  default?: Value;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
};

const NAMES = { POST: 'create', PATCH: 'change', PUT: 'replace', DELETE: 'delete' } as const;

/** Returns 192 random bits in the key format of Standard Webhooks. */
const generateKey = (): string => `whsec_${randomBytes(24).toString('base64')}`;

/** Returns the distinct choices. Values that clear the member (null and "") are not choices. */
const choicesOf = (values: readonly unknown[]): string[] => [
  ...new Set(values.filter((value) => value !== null && value !== '').map(String)),
];

function kindOf(schema: Schema): Kind {
  if (schema.kind !== undefined) return schema.kind;
  if (schema.enum !== undefined) return 'enumeration';
  const types = new Set([schema.type].flat());
  if (types.has('integer') || types.has('number')) return 'number';
  if (types.has('boolean')) return 'boolean';
  if (types.has('string')) return 'text';
  return 'json';
}

const isClearable = ({ enum: values, type }: Schema): boolean =>
  values?.includes(null) ?? [type].flat().includes('null');

const LIMITS = ['minLength', 'maxLength', 'minimum', 'maximum'] as const;
const HINTS = ['isGenerated', 'isOfPlatform', 'isSensitive', 'isForPrograms', 'isMain', 'isMinor'] as const;

/** Returns those of the keywords that the schema has. */
const picked = <Keyword extends keyof Schema>(schema: Schema, keywords: readonly Keyword[]): Pick<Schema, Keyword> =>
  Object.fromEntries(keywords.flatMap((keyword) => (keyword in schema ? [[keyword, schema[keyword]]] : []))) as Pick<
    Schema,
    Keyword
  >;

function fieldOf(name: string, schema: Schema, isRequired: boolean): Field {
  const isMultiple = schema.type === 'array';
  const itemSchema = isMultiple ? (schema.items ?? {}) : schema;
  const kind = kindOf({ ...itemSchema, ...(schema.kind && { kind: schema.kind }) });
  const choices = kind === 'boolean' ? undefined : (itemSchema.enum ?? itemSchema.choices);
  return {
    name,
    kind,
    isRequired,
    isMultiple,
    ...picked(itemSchema, LIMITS),
    ...picked(schema, HINTS),
    ...(choices !== undefined && { choices: choicesOf(choices) }),
    ...(isClearable(schema) && { isClearable: true as const }),
    ...(schema.description !== undefined && { hint: schema.description }),
    ...(schema.default !== undefined && { value: schema.default }),
  };
}

/** Returns the fields of a body schema without read-only members and alternative names. */
export function fieldsOf(schema: TSchema | undefined): readonly Field[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Readonly<Record<string, Schema>>;
    required?: readonly string[];
  };
  return Object.entries(properties)
    .filter(([, { readOnly, isOtherName }]) => readOnly !== true && isOtherName !== true)
    .map(([name, property]) => fieldOf(name, property, required.includes(name)));
}

/** Returns the documented schema of a body: that of one item if the body may be an array. */
export function documentedBody({
  input,
  documentedInput,
}: Pick<Operation, 'input' | 'documentedInput'>): TSchema | undefined {
  return documentedInput?.item ?? input;
}

type ActionTemplate = {
  name: string;
  method: Exclude<Method, 'GET'>;
  operation: Operation;
  fields: readonly Field[];
  /** The action has its own address below the document's, and is available only if the document links to it. */
  isActionRoute: boolean;
};

function withCurrentValues(
  { method, fields }: ActionTemplate,
  document: Document,
  isForPerson: boolean,
): readonly Field[] {
  if (method === 'POST') {
    return fields.map((field) => (isForPerson && field.isGenerated ? { ...field, value: generateKey() } : field));
  }
  const present = new Map(document.properties.map(({ name, value }) => [name, value]));
  return fields.map((field) => {
    const value = present.get(field.name);
    return value === undefined || value === null ? field : { ...field, value };
  });
}

/** The address of a document, and the store and the user that the address names. */
type DocumentAddress = { href: string; storeId: number | undefined; userId: number | undefined };

/** Adds the actions that the caller may use, with addresses below the requested one. */
export type WithActions = (
  document: Document,
  caller: Pick<Caller, 'principal' | 'visitor'>,
  where: DocumentAddress,
) => Document;

function isAllowed(
  { operation: { access, scopes } }: ActionTemplate,
  principal: Principal | null,
  { storeId, userId }: DocumentAddress,
): boolean {
  if (access === 'anyone' || principal === null) return access === 'anyone';
  if (access === 'token') return hasPermission(principal, scopes);
  const isSelf = isPerson(principal, userId);
  if (access === 'person') return isSelf;
  return (
    principal.scope === 'platform' ||
    (access !== 'platform' && ownsStore(principal, storeId)) ||
    (access === 'self' && isSelf)
  );
}

/**
 * Returns a function that adds a route's actions to a document, with its current values filled in. The schemas are read
 * once, when the route is mounted.
 */
export function createActions({ operations }: Resource, actionRoutes: readonly ActionRoute[]): WithActions {
  const ownTemplates = Object.entries(NAMES).flatMap(([key, name]): ActionTemplate[] => {
    const method = key as ActionTemplate['method'];
    const operation = operations[method];
    return operation === undefined
      ? []
      : [{ name, method, operation, fields: fieldsOf(documentedBody(operation)), isActionRoute: false }];
  });
  const routeTemplates = actionRoutes.map(({ name, operation }): ActionTemplate => {
    return { name, method: 'POST', operation, fields: fieldsOf(documentedBody(operation)), isActionRoute: true };
  });
  const templates = [...ownTemplates, ...routeTemplates];
  return (document, { principal, visitor }, address) => {
    const { href } = address;
    // Generated keys are for people only; without them a repeated response keeps its entity tag.
    const isForPerson = visitor !== null;
    const linked = new Set(document.links.map(({ rel }) => rel));
    const isOfDocument = ({ name, isActionRoute }: ActionTemplate): boolean =>
      isActionRoute ? linked.has(name) : document.isUnchangeable !== true;
    const allowed = templates.filter((template) => isAllowed(template, principal, address) && isOfDocument(template));
    if (allowed.length === 0) return document;
    const isPlatform = principal?.scope === 'platform';
    const { withheld = [] } = document;
    const withoutWithheld = (field: Field): Field =>
      withheld.length === 0 || field.choices === undefined
        ? field
        : { ...field, choices: field.choices.filter((choice) => !withheld.includes(choice)) };
    const isOffered = ({ isOfPlatform, isForPrograms }: Field): boolean =>
      (isPlatform || isOfPlatform !== true) && !(isForPerson && isForPrograms === true);
    const actions = allowed.map((template): Action => ({
      name: template.name,
      title: template.operation.title,
      method: template.method,
      href: template.isActionRoute ? `${href}/${template.name}` : href,
      about: template.operation.summary,
      preview: isForPerson ? template.operation.preview?.title : undefined,
      fields: withCurrentValues(template, document, isForPerson).filter(isOffered).map(withoutWithheld),
    }));
    return { ...document, actions };
  };
}

/**
 * A POST-only address below a resource, such as `/webhooks/1/test`; shown as an action in the documents of its resource and as a form on
 * its page.
 */
export type ActionRoute = {
  /** The last segment of the address; also the link relation and the name of the action. */
  name: string;
  operation: Operation;
};

function splitPath(path: string): { parent: string; name: string } {
  const at = path.lastIndexOf('/');
  return { parent: path.slice(0, at), name: path.slice(at + 1) };
}

const isResource = (route: Route): route is Resource => route.kind === 'resource';

const isActionRoute = ({ path, operations }: Resource): boolean =>
  METHODS.every((method) => (operations[method] !== undefined) === (method === 'POST')) &&
  !splitPath(path).name.startsWith(':');

/** Returns the action routes directly below the path of a resource. */
export function actionRoutesOf({ path }: Resource, routes: readonly Route[]): ActionRoute[] {
  return routes.filter(isResource).flatMap((route): ActionRoute[] => {
    const { parent, name } = splitPath(route.path);
    const operation = route.operations.POST;
    return operation !== undefined && parent === path && isActionRoute(route) ? [{ name, operation }] : [];
  });
}

/** Returns the resource that an action route acts on; undefined if the route is not an action route. */
export function targetOf(route: Resource, routes: readonly Route[]): Resource | undefined {
  return isActionRoute(route)
    ? routes.filter(isResource).find(({ path, operations }) => path === splitPath(route.path).parent && operations.GET)
    : undefined;
}

export type Target = {
  isActionRoute: boolean;
  read: Run | undefined;
  withActions: WithActions;
};

/** Returns the path of the target from the requested path. */
export function targetPath(target: Target, request: FastifyRequest): string {
  const path = pathOf(request);
  return target.isActionRoute ? path.slice(0, path.lastIndexOf('/')) : path;
}

/** Returns the document address for `WithActions`. */
export function documentAddress({ params }: FastifyRequest, href: string) {
  return {
    href,
    storeId: parseId((params as Params)['store_id'] ?? ''),
    userId: parseId((params as Params)['user_id'] ?? ''),
  };
}

export type TargetRequest = { request: FastifyRequest; caller: Caller; target: Target };

/**
 * Adds the actions of the target to its document. A document that an action route returns instead of its target has
 * none of them.
 */
export function withActionsOf(
  services: Services,
  document: Document,
  { request, caller, target }: TargetRequest,
): Document {
  const address = new URL(targetPath(target, request), services.naming.baseUrl).href;
  const isOther = target.isActionRoute && !document.links.some(({ rel, href }) => rel === 'self' && href === address);
  return isOther ? document : target.withActions(document, caller, documentAddress(request, address));
}
