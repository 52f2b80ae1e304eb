/** How many faults of our own a delivery outlives: it is not charged for them, and yet it must end. Pure. */
import { isOurs, type Outcome } from '../exchange/outcome.ts';

const HOUR_MS = 3_600_000;

/** How long to wait after a fault of our own. */
export const OWN_FAULT_GAP_MS = 30_000;
/**
 * So many in a row end a delivery: 72 hours of them. Counted, and not taken from the delivery's age: one that has waited
 * for days behind a slow endpoint would be given up at the first hiccup of our resolver.
 */
export const OWN_FAULTS_MAX = (72 * HOUR_MS) / OWN_FAULT_GAP_MS;
/** What throws is the delivery's own doing most likely, and will throw again: it weighs so much that the twelfth ends it. */
const THROW_WEIGHT = OWN_FAULTS_MAX / 12;

/** The count after this outcome; whatever the endpoint's side made of an attempt ends the row. */
export const faultsAfter = (faults: number, outcome: Outcome): number => {
  if (!isOurs(outcome)) return 0;
  return faults + (outcome.kind === 'threw' ? THROW_WEIGHT : 1);
};
