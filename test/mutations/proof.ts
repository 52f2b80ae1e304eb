/** Decides what the run of one test proves. */

/** A finished test as node:test reports it; nested tests have a higher `nesting`. */
export type Observation = {
  name: string;
  nesting: number;
  outcome: 'passed' | 'skipped' | 'failed';
  failure?: { type: string; name?: string; code?: string; message: string };
};

/** The mutated code no longer runs at all, which any test would notice: no proof that this test guards the line. */
const BROKEN_NAME = /^(?:SyntaxError|ReferenceError)$/;
/** 42 is PostgreSQL's class for syntax and name errors. */
const BROKEN_CODE =
  /^(?:ERR_MODULE_NOT_FOUND|ERR_INVALID_TYPESCRIPT_SYNTAX|ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX|42[0-9A-Z]{3})$/;

function alone(observed: readonly Observation[], name: string): Observation | string {
  const top = observed.filter(({ nesting }) => nesting === 0);
  const [only] = top;
  if (only?.name === name && top.length === 1) return only;
  const names = top
    .map(({ name: ran, failure }) => (failure ? `"${ran}" (${failure.message})` : `"${ran}"`))
    .join(', ');
  return `the run was to be "${name}" alone and was ${names || 'empty'}`;
}

/** Returns why the test does not count as passing without a mutation: it must run alone and pass. Undefined if it does. */
export function faultOfWitness(observed: readonly Observation[], name: string): string | undefined {
  const found = alone(observed, name);
  if (typeof found === 'string') return found;
  return found.outcome === 'passed' ? undefined : `"${name}" is ${found.outcome} without any mutation`;
}

/**
 * Returns why the run with the mutation proves nothing: another test than the named one ended, it passed, or it failed
 * because the code no longer runs. Undefined if the named test, and it alone, caught the mutation.
 */
export function faultOfProof(observed: readonly Observation[], name: string): string | undefined {
  const found = alone(observed, name);
  if (typeof found === 'string') return found;
  if (found.outcome !== 'failed') return `"${name}" passes (${found.outcome}): nothing guards this line`;
  const causes = observed.flatMap(({ failure }) => (failure && failure.type !== 'subtestsFailed' ? [failure] : []));
  const unfit = causes.find(
    ({ type, name: error = '', code = '' }) =>
      type !== 'testCodeFailure' || BROKEN_NAME.test(error) || BROKEN_CODE.test(code),
  );
  if (unfit) return `"${name}" fails for another reason: ${unfit.type}, ${unfit.name ?? 'error'}: ${unfit.message}`;
  return causes.length === 0 ? `"${name}" fails without a cause` : undefined;
}
