/** The words a query may use. One that nobody reads is refused: taken silently, it would look as if it had worked. */
import { invalid, type Fault } from '#kernel/problem.ts';

/** One fault for each parameter that is not among the known ones. */
export const unknownParameters = (query: URLSearchParams, known: readonly string[]): Fault[] =>
  [...new Set(query.keys())]
    .filter((name) => !known.includes(name))
    .map((name) => ({
      code: 'unknown_parameter',
      message: `There is no parameter "${name}" here; possible: ${known.join(', ') || 'none'}`,
      field: name,
    }));

/** Throws a 400 that names every parameter which is not known. */
export const refuseParameters = (query: URLSearchParams, known: readonly string[]): void => {
  const faults = unknownParameters(query, known);
  if (faults.length > 0) throw invalid(...faults);
};
