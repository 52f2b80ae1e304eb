/** Derives the actions of a resource and their fields from the schemas that validate its requests. */
import { randomBytes } from 'node:crypto';
import type { TSchema } from 'typebox';
import type { Action, Document, Field, Kind, Value } from '#hypermedia/document.ts';
import type { Caller } from './caller.ts';
import type { ActionRoute } from './action-target.ts';
import { hasPermission, isPerson, ownsStore, type Principal } from '#core/principal.ts';
import type { Operation } from './operation.ts';
import type { Method, Resource } from './route.ts';

/** Keywords of JSON Schema and the hints of inputs.ts. */
type Schema = {
  type?: string | readonly string[];
  enum?: readonly unknown[];
  choices?: readonly string[];
  items?: Schema;
  readOnly?: boolean;
  kind?: Kind;
  isGenerated?: true;
  isSensitive?: true;
  isOfPlatform?: true;
  isForPrograms?: true;
  isOtherName?: true;
  isMinor?: true;
  description?: string;
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

function fieldOf(name: string, schema: Schema, isRequired: boolean): Field {
  const isMultiple = schema.type === 'array';
  const itemSchema = isMultiple ? (schema.items ?? {}) : schema;
  const { minLength, maxLength, minimum, maximum } = itemSchema;
  const kind = kindOf({ ...itemSchema, ...(schema.kind && { kind: schema.kind }) });
  const choices = kind === 'boolean' ? undefined : (itemSchema.enum ?? itemSchema.choices);
  return {
    name,
    kind,
    isRequired,
    isMultiple,
    ...(choices !== undefined && { choices: choicesOf(choices) }),
    ...(isClearable(schema) && { isClearable: true as const }),
    ...(minLength !== undefined && { minLength }),
    ...(maxLength !== undefined && { maxLength }),
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    ...(schema.description !== undefined && { hint: schema.description }),
    ...(schema.isGenerated && { isGenerated: true as const }),
    ...(schema.isOfPlatform && { isOfPlatform: true as const }),
    ...(schema.isSensitive && { isSensitive: true as const }),
    ...(schema.isForPrograms && { isForPrograms: true as const }),
    ...(schema.isMinor && { isMinor: true as const }),
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
    const isOffered = ({ isOfPlatform, isForPrograms }: Field): boolean =>
      (isPlatform || isOfPlatform !== true) && !(isForPerson && isForPrograms === true);
    const actions = allowed.map((template): Action => ({
      name: template.name,
      title: template.operation.title,
      method: template.method,
      href: template.isActionRoute ? `${href}/${template.name}` : href,
      about: template.operation.summary,
      fields: withCurrentValues(template, document, isForPerson).filter(isOffered),
    }));
    return { ...document, actions };
  };
}
