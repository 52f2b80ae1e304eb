/** The words a query may use. One that nobody reads is refused: taken silently, it would look as if it had worked. */
import { invalid, type Fault } from '#core/problem.ts';

export const unknownParameter = (name: string, known: readonly string[], field: string = name): Fault => ({
  code: 'unknown_parameter',
  message: `There is no parameter "${name}" here; possible: ${known.join(', ') || 'none'}`,
  field,
});

/** The names of a query's parameters that are not among the known ones, each once. */
export const otherNames = (query: URLSearchParams, known: readonly string[]): string[] => [
  ...new Set(query.keys()).difference(new Set(known)),
];

/** So many are named; an answer that repeats thousands helps nobody. */
const OTHERS_MAX = 20;

/** Throws a 400 that names every parameter which is not known. */
export const refuseParameters = (query: URLSearchParams, known: readonly string[]): void => {
  const others = otherNames(query, known);
  if (others.length > OTHERS_MAX)
    throw invalid({ code: 'too_many', message: `There are ${others.length} parameters that nobody reads here` });
  if (others.length > 0) throw invalid(...others.map((name) => unknownParameter(name, known)));
};

/**
 * The value of a parameter; undefined where it does not come, or comes more than once, which is a fault of `field`: its own
 * name, unless the whole query is somebody's property.
 */
export const onlyValue = (
  query: URLSearchParams,
  name: string,
  faults: Fault[],
  field: string = name,
): string | undefined => {
  const [value, ...more] = query.getAll(name);
  if (more.length === 0) return value;
  faults.push({ code: 'duplicate_parameter', message: `${name} is given more than once`, field });
  return undefined;
};

export const FIELDS_MAX = 100;

/** The members of a list with commas; none where the parameter does not come, or is no such list, which is a fault. */
export const membersOf = (
  query: URLSearchParams,
  name: string,
  most: number,
  faults: Fault[],
  field: string = name,
): string[] => {
  const text = onlyValue(query, name, faults, field);
  if (text === undefined) return [];
  const members = text.split(',').map((member) => member.trim());
  if (members.length <= most && !members.includes('')) return members;
  const message = `${name} takes 1 to ${most} properties, parted by commas`;
  faults.push({ code: members.length > most ? 'too_many' : 'invalid_parameter', message, field });
  return [];
};
