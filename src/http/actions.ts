/** What can be done with a resource, as actions with fields: from the schemas that judge what is sent. */
import { randomBytes } from 'node:crypto';
import type { TSchema } from 'typebox';
import type { Action, Document, Field, Kind, Value } from '#hypermedia/document.ts';
import type { Caller } from './caller.ts';
import type { ActionRoute } from './action-routes.ts';
import { ownsStore, type Principal } from '#core/principal.ts';
import type { Operation } from './operation.ts';
import type { Method, Resource } from './route.ts';

/** JSON Schema's own words and those of inputs.ts. */
type Schema = {
  type?: string | readonly string[];
  enum?: readonly unknown[];
  choices?: readonly string[];
  items?: Schema;
  readOnly?: boolean;
  kind?: Kind;
  isGenerated?: true;
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

/** 192 bits as Standard Webhooks writes its keys. */
const newKey = (): string => `whsec_${randomBytes(24).toString('base64')}`;

/** Two spellings of one choice are one; what clears it is none. */
const choicesOf = (values: readonly unknown[]): string[] => [
  ...new Set(values.filter((value) => value !== null && value !== '').map(String)),
];

const kindOf = (schema: Schema): Kind => {
  if (schema.kind !== undefined) return schema.kind;
  if (schema.enum !== undefined) return 'enumeration';
  const types = new Set([schema.type].flat());
  if (types.has('integer') || types.has('number')) return 'number';
  if (types.has('boolean')) return 'boolean';
  if (types.has('string')) return 'text';
  return 'json';
};

const mayBeCleared = ({ enum: values, type }: Schema): boolean =>
  values?.includes(null) ?? [type].flat().includes('null');

const fieldOf = (name: string, schema: Schema, isRequired: boolean): Field => {
  const isMultiple = schema.type === 'array';
  const one = isMultiple ? (schema.items ?? {}) : schema;
  const { minLength, maxLength, minimum, maximum } = one;
  const kind = kindOf({ ...one, ...(schema.kind && { kind: schema.kind }) });
  const choices = kind === 'boolean' ? undefined : (one.enum ?? one.choices);
  return {
    name,
    kind,
    isRequired,
    isMultiple,
    ...(choices !== undefined && { choices: choicesOf(choices) }),
    ...(mayBeCleared(schema) && { isClearable: true as const }),
    ...(minLength !== undefined && { minLength }),
    ...(maxLength !== undefined && { maxLength }),
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    ...(schema.description !== undefined && { hint: schema.description }),
    ...(schema.isGenerated && { isGenerated: true as const }),
    ...(schema.isOfPlatform && { isOfPlatform: true as const }),
    ...(schema.isForPrograms && { isForPrograms: true as const }),
    ...(schema.isMinor && { isMinor: true as const }),
    ...(schema.default !== undefined && { value: schema.default }),
  };
};

/** What a body may say, field by field and each under one name; nothing of what is only read. */
export const fieldsOf = (schema: TSchema | undefined): readonly Field[] => {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Readonly<Record<string, Schema>>;
    required?: readonly string[];
  };
  return Object.entries(properties)
    .filter(([, { readOnly, isOtherName }]) => readOnly !== true && isOtherName !== true)
    .map(([name, property]) => fieldOf(name, property, required.includes(name)));
};

/** What is told of a body: of one of many, where it may be many. */
export const bodyOf = ({ input, told }: Pick<Operation, 'input' | 'told'>): TSchema | undefined => told?.item ?? input;

type Doing = {
  name: string;
  method: Exclude<Method, 'GET'>;
  operation: Operation;
  fields: readonly Field[];
  /** Done at an address of its own below the document's, and only where the document links to it. */
  isActionRoute: boolean;
};

const filled = ({ method, fields }: Doing, document: Document, isForPerson: boolean): readonly Field[] => {
  if (method === 'POST') {
    return fields.map((field) => (isForPerson && field.isGenerated ? { ...field, value: newKey() } : field));
  }
  const present = new Map(document.properties.map(({ name, value }) => [name, value]));
  return fields.map((field) => {
    const value = present.get(field.name);
    return value === undefined || value === null ? field : { ...field, value };
  });
};

/** Where a document stands: its address, and the store that the address names. */
type Where = { href: string; storeId: number | undefined };

/** Adds the actions of a route to its document: those that the reader may use, at the address that was asked for. */
export type WithActions = (document: Document, caller: Pick<Caller, 'principal' | 'visitor'>, where: Where) => Document;

const isFor = ({ operation: { access } }: Doing, principal: Principal | null, storeId: number | undefined): boolean => {
  if (access === 'anyone' || principal === null) return access === 'anyone';
  return access === 'token' || principal.scope === 'platform' || (access === 'owner' && ownsStore(principal, storeId));
};

/**
 * Makes what adds a route's actions to its document: with what stands there now filled in.
 * The schemas are read once, when the route is mounted.
 */
export const createActions = ({ operations }: Resource, deeds: readonly ActionRoute[]): WithActions => {
  const own = Object.entries(NAMES).flatMap(([key, name]): Doing[] => {
    const method = key as Doing['method'];
    const operation = operations[method];
    return operation === undefined
      ? []
      : [{ name, method, operation, fields: fieldsOf(bodyOf(operation)), isActionRoute: false }];
  });
  const below = deeds.map(({ name, operation }): Doing => {
    return { name, method: 'POST', operation, fields: fieldsOf(bodyOf(operation)), isActionRoute: true };
  });
  const doings = [...own, ...below];
  return (document, { principal, visitor }, { href, storeId }) => {
    // A program makes its own keys, and the same answer twice has one tag.
    const isForPerson = visitor !== null;
    const linked = new Set(document.links.map(({ rel }) => rel));
    const possible = doings.filter(
      (doing) => isFor(doing, principal, storeId) && (!doing.isActionRoute || linked.has(doing.name)),
    );
    if (possible.length === 0) return document;
    const isPlatform = principal?.scope === 'platform';
    const isAsked = ({ isOfPlatform, isForPrograms }: Field): boolean =>
      (isPlatform || isOfPlatform !== true) && !(isForPerson && isForPrograms === true);
    const actions = possible.map((doing): Action => ({
      name: doing.name,
      title: doing.operation.title,
      method: doing.method,
      href: doing.isActionRoute ? `${href}/${doing.name}` : href,
      about: doing.operation.summary,
      fields: filled(doing, document, isForPerson).filter(isAsked),
    }));
    return { ...document, actions };
  };
};
