/** Query parameters. Unknown ones are rejected: ignored silently, they would seem to work. */
import { invalid, type Fault } from '#core/problem.ts';

export function unknownParameter(name: string, known: readonly string[], field: string = name): Fault {
  return {
    code: 'unknown_parameter',
    message: `There is no parameter "${name}" here; possible: ${known.join(', ') || 'none'}`,
    field,
  };
}

/** Returns the names of unknown parameters, each once. */
export function otherNames(query: URLSearchParams, known: readonly string[]): string[] {
  return [...new Set(query.keys()).difference(new Set(known))];
}

/** With more unknown parameters the error lists none of them. */
const OTHERS_MAX = 20;

/** Throws a 400 that names every unknown parameter. */
export function refuseParameters(query: URLSearchParams, known: readonly string[]): void {
  const others = otherNames(query, known);
  if (others.length > OTHERS_MAX)
    throw invalid({ code: 'too_many', message: `There are ${others.length} unknown parameters` });
  if (others.length > 0) throw invalid(...others.map((name) => unknownParameter(name, known)));
}

/**
 * Returns the value of a parameter; undefined if it is absent or repeated. A repetition is a fault of `field`, which
 * differs from the name if the whole query is a property of a body.
 */
export function onlyValue(
  query: URLSearchParams,
  name: string,
  faults: Fault[],
  field: string = name,
): string | undefined {
  const [value, ...more] = query.getAll(name);
  if (more.length === 0) return value;
  faults.push({ code: 'duplicate_parameter', message: `${name} is given more than once`, field });
  return undefined;
}

export const FIELDS_MAX = 100;

/** Returns the members of a comma-separated list; none if the parameter is absent or invalid, which is a fault. */
export function membersOf(
  query: URLSearchParams,
  name: string,
  max: number,
  faults: Fault[],
  field: string = name,
): string[] {
  const text = onlyValue(query, name, faults, field);
  if (text === undefined) return [];
  const members = text.split(',').map((member) => member.trim());
  if (members.length <= max && !members.includes('')) return members;
  const message = `${name} takes 1 to ${max} properties, separated by commas`;
  faults.push({ code: members.length > max ? 'too_many' : 'invalid_parameter', message, field });
  return [];
}
