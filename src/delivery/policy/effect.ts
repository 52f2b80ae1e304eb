import { isInternalError, type Outcome } from '../attempt/http/outcome.ts';

/** What an outcome says of the endpoint: it works, it does not, or nothing, because it asked for a pause or the fault is ours. */
export type Effect = 'success' | 'failure' | 'nothing';

export const effectOf = (outcome: Outcome): Effect => {
  if (outcome.kind === 'delivered') return 'success';
  if (isInternalError(outcome) || (outcome.kind === 'refused' && outcome.retryAfterMs > 0)) return 'nothing';
  return 'failure';
};
