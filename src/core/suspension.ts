/** What an operator suspends, and the error of those who meet it. */
import { Problem, type Fault } from './problem.ts';

/** Characters of a reason; the CHECKs of the columns have the same limit. */
export const REASON_LENGTH_MAX = 200;

type Suspended = 'app' | 'account' | 'store';

/** Returns the fault of something suspended; every place that refuses it has this code. */
export function suspensionOf(what: Suspended, reason: string): Fault {
  return { code: `${what}_suspended`, message: `The operator of this service has suspended this ${what}: ${reason}` };
}

export function suspended(what: Suspended, reason: string): Problem {
  return new Problem(403, suspensionOf(what, reason));
}
