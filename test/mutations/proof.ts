/** Decides what the run of one test proves. */

/** A finished test as node:test reports it; nested tests have a higher `nesting`. */
export type Observation = {
  name: string;
  nesting: number;
  outcome: 'passed' | 'skipped' | 'failed';
  failure?: { type: string; name?: string; code?: string; message: string };
};

/** The mutated code no longer runs at all, which any test would notice: no proof that this test guards the line. */
const BROKEN_NAME = /^(?:SyntaxError|ReferenceError|EndlessLoopError)$/;
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
  if (found.outcome === 'passed') return undefined;
  const why = causesOf(observed)[0]?.message;
  return `"${name}" is ${found.outcome} without any mutation${why === undefined ? '' : `: ${why}`}`;
}

type Failure = NonNullable<Observation['failure']>;

const causesOf = (observed: readonly Observation[]): Failure[] =>
  observed.flatMap(({ failure }) => (failure && failure.type !== 'subtestsFailed' ? [failure] : []));

const isUnfit = ({ type, name = '', code = '' }: Failure): boolean =>
  type !== 'testCodeFailure' || BROKEN_NAME.test(name) || BROKEN_CODE.test(code);

export const SURVIVED = 'all tests pass';

/**
 * Returns why the run of a whole file with a mutation proves nothing: `SURVIVED`, or the file or each failing test failed because
 * the code no longer runs. Undefined if one of its tests caught the mutation.
 */
export function faultOfFileProof(observed: readonly Observation[], testFile: string): string | undefined {
  const [cause] = causesOf(observed);
  if (cause === undefined) return observed.length === 0 ? 'no test ran' : SURVIVED;
  // The file itself fails under its path where it cannot be loaded.
  const isCaught = causesOf(observed.filter(({ name }) => name !== testFile)).some((failure) => !isUnfit(failure));
  return isCaught ? undefined : `${cause.type}, ${cause.name ?? 'error'}: ${cause.message}`;
}

/** Returns why the file does not count as passing without a mutation. Undefined if it does. */
export function faultOfFileWitness(observed: readonly Observation[]): string | undefined {
  const failed = observed.find(({ outcome }) => outcome === 'failed');
  if (failed !== undefined) return `"${failed.name}" failed without any mutation: ${failed.failure?.message ?? ''}`;
  return observed.some(({ outcome }) => outcome === 'passed') ? undefined : 'no test ran';
}

/**
 * Returns why the run with the mutation proves nothing: another test than the named one ended, it passed, or it failed
 * because the code no longer runs. Undefined if the named test, and it alone, caught the mutation.
 */
export function faultOfProof(observed: readonly Observation[], name: string): string | undefined {
  const found = alone(observed, name);
  if (typeof found === 'string') return found;
  if (found.outcome !== 'failed') return `"${name}" passes (${found.outcome}): nothing guards this line`;
  const causes = causesOf(observed);
  const unfit = causes.find(isUnfit);
  if (unfit) return `"${name}" fails for another reason: ${unfit.type}, ${unfit.name ?? 'error'}: ${unfit.message}`;
  return causes.length === 0 ? `"${name}" fails without a cause` : undefined;
}
