/**
 * Limits how many internal errors in a row a delivery survives: they are not charged as attempts, so the retry profile
 * does not end it. Pure.
 */
import { isInternalError, type Outcome } from '../attempt/http/outcome.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * Delay after the first internal error. It doubles with each further one, up to the longest probe interval of the
 * breaker.
 */
const INTERNAL_FAULT_GAP_MS = 30_000;
const LONGEST_GAPS = (5 * MINUTE_MS) / INTERNAL_FAULT_GAP_MS;
/**
 * A delivery ends after this many delay units in a row, which is 72 hours. The units are counted instead of the
 * delivery's age: a delivery that waited for days behind a slow endpoint would otherwise end with the first resolver
 * error.
 */
export const INTERNAL_FAULTS_MAX = (72 * HOUR_MS) / INTERNAL_FAULT_GAP_MS;

/** Returns the delay units in a fault of this duration. */
export function faultUnitsIn(ms: number): number {
  return ms / INTERNAL_FAULT_GAP_MS;
}

/**
 * An error that is thrown is most likely caused by the delivery itself and will repeat: the twelfth ends the delivery.
 */
const THROW_WEIGHT = INTERNAL_FAULTS_MAX / 12;

/**
 * Returns the fault count after this outcome: an internal error adds as many delay units as the wait that follows it,
 * an outcome of the endpoint resets the count to 0.
 */
export function faultsAfter(faults: number, outcome: Outcome): number {
  if (!isInternalError(outcome)) return 0;
  return faults + (outcome.kind === 'threw' ? THROW_WEIGHT : Math.min(faults + 1, LONGEST_GAPS));
}

/**
 * Returns the delay after an internal error that raised the count to `faults`; after a thrown error always the first
 * delay.
 */
export function gapAfterFaultMs(faults: number, outcome: Outcome): number {
  return INTERNAL_FAULT_GAP_MS * (outcome.kind === 'threw' ? 1 : Math.min(Math.ceil(faults / 2), LONGEST_GAPS));
}
