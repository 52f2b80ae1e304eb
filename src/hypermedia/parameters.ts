/** The words a query may use. One that nobody reads is refused: taken silently, it would look as if it had worked. */
import { invalid, type Fault } from '#kernel/problem.ts';

export const unknownParameter = (name: string, known: readonly string[]): Fault => ({
  code: 'unknown_parameter',
  message: `There is no parameter "${name}" here; possible: ${known.join(', ') || 'none'}`,
  field: name,
});

/** The names of a query's parameters that are not among the known ones, each once. */
export const otherNames = (query: URLSearchParams, known: readonly string[]): string[] => [
  ...new Set(query.keys()).difference(new Set(known)),
];

/** Throws a 400 that names every parameter which is not known. */
export const refuseParameters = (query: URLSearchParams, known: readonly string[]): void => {
  const faults = otherNames(query, known).map((name) => unknownParameter(name, known));
  if (faults.length > 0) throw invalid(...faults);
};

/** The value of a parameter; undefined where it does not come, or comes more than once, which is a fault. */
export const onlyValue = (query: URLSearchParams, name: string, faults: Fault[]): string | undefined => {
  const [value, ...more] = query.getAll(name);
  if (more.length === 0) return value;
  faults.push({ code: 'invalid_parameter', message: `${name} is given more than once`, field: name });
  return undefined;
};
