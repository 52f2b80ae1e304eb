/** Validates a body against its schema and reports every fault with the name of its member. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Fault } from '#core/problem.ts';
import { coerceMembers, isObject, propertiesOf } from './body.ts';
import type { Operation } from '../operation.ts';
import type { Method } from '../route.ts';

type ValidationError = { keyword: string; instancePath: string; params: object; message: string };

const fieldOf = (path: string): string =>
  path.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');

const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

/**
 * Lists the choices of an enumeration for a message. `1` and `"1"` are one choice; values that clear the member are not
 * listed.
 */
const choices = (values: unknown): string =>
  [...new Set((values as unknown[]).filter((value) => value !== null && value !== '').map(String))].join(', ');

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
};

const typeNames = (types: unknown): string =>
  [types]
    .flat()
    .map((type) => TYPES[String(type)] ?? String(type))
    .join(' or ');

/** Describes the requirement that a value violates; falls back to the library's message. */
function requirementOf(keyword: string, detail: Readonly<Record<string, unknown>>, message: string): string {
  const limit = String(detail['limit']);
  switch (keyword) {
    case 'type':
      return `must be ${typeNames(detail['type'])}`;
    case 'minLength':
      return detail['limit'] === 1 ? 'must not be empty' : `must be at least ${limit} characters`;
    case 'maxLength':
      return `must be at most ${limit} characters`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'maxItems':
      return `must have at most ${limit} items`;
    case 'maxProperties':
      return `must have at most ${limit} members`;
    case 'enum':
      return `must be one of: ${choices(detail['allowedValues'])}`;
    default:
      return message;
  }
}

const CODES: Readonly<Record<string, string>> = { maxLength: 'too_long', minLength: 'too_short' };

const missing = (field: string): Fault => ({ code: 'required', message: `${field} is required`, field });

function unknownProperty(field: string): Fault {
  return { code: 'unknown_property', message: `${field} is not a property that can be set here`, field };
}

function faultsOf({ keyword, instancePath, params, message }: ValidationError): Fault[] {
  const field = fieldOf(instancePath);
  const detail = params as Record<string, unknown>;
  switch (keyword) {
    case 'required':
      return (detail['requiredProperties'] as string[]).map((name) => missing(join(field, name)));
    case 'additionalProperties':
      return (detail['additionalProperties'] as string[]).map((name) => unknownProperty(join(field, name)));
    default: {
      const requirement = `${field || 'The body'} ${requirementOf(keyword, detail, message)}`;
      return [{ code: CODES[keyword] ?? 'invalid_value', message: requirement, ...(field === '' ? {} : { field }) }];
    }
  }
}

const namesOf = (schema: TSchema, type: string): ReadonlySet<string> =>
  new Set(
    Object.entries(propertiesOf(schema))
      .filter(([, property]) => (property as { type?: string }).type === type)
      .map(([name]) => name),
  );

/** Returns the members that are arrays, which a form sends as repeated fields. */
export function arraysOf(schema: TSchema): ReadonlySet<string> {
  return namesOf(schema, 'array');
}

/** Returns the members that are objects, which a form sends as JSON. */
export function objectsOf(schema: TSchema): ReadonlySet<string> {
  return namesOf(schema, 'object');
}

/** The result of a validation. `sound` contains the members without a fault, if the value is an object. */
export type Checked = { value: unknown; faults: readonly Fault[]; sound: Readonly<Record<string, unknown>> };

/**
 * Returns one entry for each fault: the library reports each branch of a union, and an unknown member a second time as
 * "schema is false".
 */
function faultsIn(errors: readonly ValidationError[]): Fault[] {
  const isUnknown = errors.some(({ keyword }) => keyword === 'additionalProperties');
  const faults = errors.filter(({ keyword }) => keyword !== 'boolean' || !isUnknown).flatMap(faultsOf);
  return [...new Map(faults.map((fault) => [`${fault.field}:${fault.code}`, fault])).values()];
}

/** Unknown members beyond this number are not listed in the error. */
const UNKNOWN_MAX = 50;

/**
 * Validates members one by one: the library's own check of an object stops after eight errors, and members that it has
 * not reached cannot be trusted. `additionalProperties` is false in all body schemas.
 */
function createMemberCheck(schema: TSchema) {
  const members = new Map(Object.entries(propertiesOf(schema)).map(([name, one]) => [name, Compile(one)]));
  const { required = [] } = schema as { required?: readonly string[] };
  return (value: Readonly<Record<string, unknown>>): Checked => {
    const faults = required.filter((name) => !Object.hasOwn(value, name)).map(missing);
    const sound: [string, unknown][] = [];
    let unknown = 0;
    for (const [name, member] of Object.entries(value)) {
      const compiled = members.get(name);
      if (compiled === undefined) {
        unknown += 1;
        if (unknown <= UNKNOWN_MAX) faults.push(unknownProperty(name));
      } else if (compiled.Check(member)) sound.push([name, member]);
      else {
        const [, errors] = compiled.Errors(member);
        faults.push(
          ...faultsIn(errors.map((error) => Object.assign(error, { instancePath: `/${name}${error.instancePath}` }))),
        );
      }
    }
    return { value, faults, sound: Object.fromEntries(sound) };
  };
}

/**
 * Returns the validator of a schema. Members that the schema marks `readOnly`, and `_links` and `_embedded`, are
 * dropped first, so that a client may send back a representation. Each fault has one entry.
 */
export function createValidator(schema: TSchema): (value: unknown) => Checked {
  const compiled = Compile(schema);
  const checkMembers = createMemberCheck(schema);
  const dropped = new Set(['_links', '_embedded']);
  for (const [name, property] of Object.entries(propertiesOf(schema)))
    if (property['readOnly'] === true) dropped.add(name);
  const read = (value: unknown): unknown => {
    if (!isObject(value)) return value;
    return coerceMembers(schema, Object.fromEntries(Object.entries(value).filter(([name]) => !dropped.has(name))));
  };
  return (input) => {
    const value = read(input);
    if (compiled.Check(value)) return { value, faults: [], sound: isObject(value) ? value : {} };
    return isObject(value) ? checkMembers(value) : { value, faults: faultsIn(compiled.Errors(value)[1]), sound: {} };
  };
}

/**
 * Returns whether a POST may be sent without body and Content-Type: if its schema requires no member, an absent body
 * equals `{}`.
 */
export function isBodyOptional(
  method: Method,
  { input, documentedInput }: Pick<Operation, 'input' | 'documentedInput'>,
): boolean {
  if (method !== 'POST' || input === undefined || documentedInput !== undefined) return false;
  const { required = [] } = input as { required?: readonly string[] };
  return required.length === 0;
}
