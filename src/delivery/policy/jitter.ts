/**
 * Every delay is withJitter by 0–20 %, never shortened, so that deliveries that failed together are not retried
 * together.
 */
const JITTER = 0.2;

/** Returns the delay with jitter. `random` is in [0, 1). */
export function withJitter(ms: number, random: number): number {
  return ms * (1 + JITTER * random);
}
