/** A body against its schema: every fault found, each named after the member that is wrong. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Fault } from '#kernel/problem.ts';
import { coerceMembers, isObject, propertiesOf } from './coerce.ts';

type ValidationError = { keyword: string; instancePath: string; params: object; message: string };

const fieldOf = (path: string): string =>
  path.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');

const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

/** An enumeration for people: `1` and `"1"` are one choice, and the ways to clear a value are none. */
const choices = (values: unknown): string =>
  [...new Set((values as unknown[]).filter((value) => value !== null && value !== '').map(String))].join(', ');

const faultsOf = ({ keyword, instancePath, params, message }: ValidationError): Fault[] => {
  const field = fieldOf(instancePath);
  const detail = params as Record<string, unknown>;
  switch (keyword) {
    case 'required':
      return (detail['requiredProperties'] as string[]).map((name) => ({
        code: 'required',
        message: `${join(field, name)} is required`,
        field: join(field, name),
      }));
    case 'additionalProperties':
      return (detail['additionalProperties'] as string[]).map((name) => ({
        code: 'unknown_property',
        message: `${join(field, name)} is not a property that can be set here`,
        field: join(field, name),
      }));
    case 'maxLength':
      return [{ code: 'too_long', message: `${field} must be at most ${String(detail['limit'])} characters`, field }];
    case 'minLength':
      return [{ code: 'too_short', message: `${field} must be at least ${String(detail['limit'])} characters`, field }];
    case 'enum':
      return [
        { code: 'invalid_value', message: `${field} must be one of: ${choices(detail['allowedValues'])}`, field },
      ];
    default:
      return [
        { code: 'invalid_value', message: `${field || 'The body'} ${message}`, ...(field === '' ? {} : { field }) },
      ];
  }
};

/** The names whose values are arrays, which a form writes by repetition. */
export const arraysOf = (schema: TSchema): ReadonlySet<string> =>
  new Set(
    Object.entries(propertiesOf(schema))
      .filter(([, property]) => (property as { type?: string }).type === 'array')
      .map(([name]) => name),
  );

/** What came of a check. `sound` is the value without the members that have a fault, where the value is an object. */
export type Checked = { value: unknown; faults: readonly Fault[]; sound: Readonly<Record<string, unknown>> };

/**
 * Makes the check for a schema. Members that the schema marks `readOnly`, and `_links` and `_embedded`, are dropped
 * first, so that a client may send back what it read. There is one entry for each fault.
 */
export const createValidator = (schema: TSchema): ((value: unknown) => Checked) => {
  const compiled = Compile(schema);
  const dropped = new Set(['_links', '_embedded']);
  for (const [name, property] of Object.entries(propertiesOf(schema)))
    if (property['readOnly'] === true) dropped.add(name);
  const read = (value: unknown): unknown => {
    if (!isObject(value)) return value;
    return coerceMembers(schema, Object.fromEntries(Object.entries(value).filter(([name]) => !dropped.has(name))));
  };
  return (given) => {
    const value = read(given);
    const members = isObject(value) ? Object.entries(value) : [];
    if (compiled.Check(value)) return { value, faults: [], sound: Object.fromEntries(members) };
    const errors = compiled.Errors(value) as ValidationError[];
    // The library says of an unknown member once more that "schema is false".
    const isUnknown = errors.some(({ keyword }) => keyword === 'additionalProperties');
    const faults = errors.filter(({ keyword }) => keyword !== 'boolean' || !isUnknown).flatMap(faultsOf);
    // A union reports each of its branches: one entry a field is enough.
    const distinct = [...new Map(faults.map((fault) => [`${fault.field}:${fault.code}`, fault])).values()];
    const faulty = new Set(distinct.map((fault) => fault.field?.split('.', 1)[0]));
    return { value, faults: distinct, sound: Object.fromEntries(members.filter(([name]) => !faulty.has(name))) };
  };
};
