/** A body against its schema: every fault found, each named after the member that is wrong. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { invalid, type Fault } from '#kernel/problem.ts';

type Properties = Readonly<Record<string, TSchema & Readonly<Record<string, unknown>>>>;

const propertiesOf = (schema: TSchema): Properties => (schema as { properties?: Properties }).properties ?? {};

type ValidationError = { keyword: string; instancePath: string; params: object; message: string };

const fieldOf = (path: string): string =>
  path.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');

const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

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
        {
          code: 'invalid_value',
          message: `${field} must be one of: ${(detail['allowedValues'] as unknown[]).join(', ')}`,
          field,
        },
      ];
    default:
      return [
        { code: 'invalid_value', message: `${field || 'The body'} ${message}`, ...(field === '' ? {} : { field }) },
      ];
  }
};

/** What a form cannot say by type: numbers arrive as text. Anything else is left for the schema to judge. */
const coerce = (schema: TSchema, value: unknown): unknown =>
  typeof value === 'string' && (schema as { type?: string }).type === 'integer' && /^-?[0-9]{1,15}$/.test(value)
    ? Number(value)
    : value;

/** The names whose values are arrays, which a form writes by repetition. */
export const arraysOf = (schema: TSchema): ReadonlySet<string> =>
  new Set(
    Object.entries(propertiesOf(schema))
      .filter(([, property]) => (property as { type?: string }).type === 'array')
      .map(([name]) => name),
  );

/**
 * Makes the check for a schema. Members that the schema marks `readOnly`, and `_links` and `_embedded`, are dropped
 * first, so that a client may send back what it read. Throws a 400 with one entry per fault.
 */
export const createValidator = (schema: TSchema): ((value: unknown) => unknown) => {
  const properties = propertiesOf(schema);
  const compiled = Compile(schema);
  const dropped = new Set(['_links', '_embedded']);
  for (const [name, property] of Object.entries(properties)) if (property['readOnly'] === true) dropped.add(name);
  return (value) => {
    let subject = value;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const kept = Object.entries(value).filter(([name]) => !dropped.has(name));
      subject = Object.fromEntries(
        kept.map(([name, member]) => {
          const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
          return [name, property === undefined ? member : coerce(property, member)];
        }),
      );
    }
    if (compiled.Check(subject)) return subject;
    const faults = compiled.Errors(subject).flatMap((error) => faultsOf(error as ValidationError));
    // A union reports each of its branches: one entry a field is enough.
    const distinct = new Map(faults.map((fault) => [`${fault.field}:${fault.code}`, fault]));
    throw invalid(...distinct.values());
  };
};
