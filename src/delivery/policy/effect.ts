/** Classifies outcomes by what they say about the endpoint. */
import { isInternalError, type Outcome } from '../attempt/http/outcome.ts';

/**
 * What an outcome says about the endpoint: it works, it fails, or nothing, after a requested pause or an internal
 * error.
 */
export type Effect = 'success' | 'failure' | 'nothing';

export function effectOf(outcome: Outcome): Effect {
  if (outcome.kind === 'delivered') return 'success';
  if (isInternalError(outcome) || (outcome.kind === 'refused' && outcome.retryAfterMs > 0)) return 'nothing';
  return 'failure';
}
