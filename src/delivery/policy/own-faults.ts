/** How many faults of our own a delivery outlives: it is not charged for them, and yet it must end. Pure. */
import { isInternalError, type Outcome } from '../attempt/http/outcome.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** How long to wait after a fault of our own; after the next ones twice as long each, and at last as long as a breaker does. */
const OWN_FAULT_GAP_MS = 30_000;
const LONGEST_GAPS = (5 * MINUTE_MS) / OWN_FAULT_GAP_MS;
/**
 * So many gaps in a row end a delivery: 72 hours of them. Counted, and not taken from the delivery's age: one that has waited
 * for days behind a slow endpoint would be given up at the first hiccup of our resolver.
 */
export const OWN_FAULTS_MAX = (72 * HOUR_MS) / OWN_FAULT_GAP_MS;
/** What throws is the delivery's own doing most likely, and will throw again: it weighs so much that the twelfth ends it. */
const THROW_WEIGHT = OWN_FAULTS_MAX / 12;

/**
 * The count after this outcome: a fault weighs as many gaps as are waited after it, one more than all before it. Whatever the
 * endpoint's side made of an attempt ends the row.
 */
export const faultsAfter = (faults: number, outcome: Outcome): number => {
  if (!isInternalError(outcome)) return 0;
  return faults + (outcome.kind === 'threw' ? THROW_WEIGHT : Math.min(faults + 1, LONGEST_GAPS));
};

/** How long to wait after a fault that made the count this; what throws is waited for as after the first. */
export const gapAfterFaultMs = (faults: number, outcome: Outcome): number =>
  OWN_FAULT_GAP_MS * (outcome.kind === 'threw' ? 1 : Math.min(Math.ceil(faults / 2), LONGEST_GAPS));
