/** What a run of one test proves. */

/** One test that ended, as node:test tells it; tests inside of others have a higher `nesting`. */
export type Observation = {
  name: string;
  nesting: number;
  outcome: 'passed' | 'skipped' | 'failed';
  failure?: { type: string; name?: string; code?: string; message: string };
};

/** Says that the mutated code no longer runs at all, which any test would notice: no proof that this one guards it. */
const BROKEN_NAME = /^(?:SyntaxError|ReferenceError)$/;
/** 42 is PostgreSQL's class for statements that cannot be understood. */
const BROKEN_CODE =
  /^(?:ERR_MODULE_NOT_FOUND|ERR_INVALID_TYPESCRIPT_SYNTAX|ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX|42[0-9A-Z]{3})$/;

function alone(observed: readonly Observation[], name: string): Observation | string {
  const top = observed.filter(({ nesting }) => nesting === 0);
  const [only] = top;
  if (only?.name === name && top.length === 1) return only;
  const told = top.map(({ name: ran, failure }) => (failure ? `"${ran}" (${failure.message})` : `"${ran}"`)).join(', ');
  return `the run was to be "${name}" alone and was ${told || 'empty'}`;
}

/** Why the test is no witness, before anything was changed: it must run, alone, and pass. Undefined where it is one. */
export function faultOfWitness(observed: readonly Observation[], name: string): string | undefined {
  const found = alone(observed, name);
  if (typeof found === 'string') return found;
  return found.outcome === 'passed' ? undefined : `"${name}" is ${found.outcome} without any mutation`;
}

/**
 * Why the run after the change proves nothing: another test than the named one ended, it passed, or it failed
 * because the code no longer runs. Undefined where the named test, and it alone, caught the mutation.
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
