/** Milliseconds on the one monotonic clock of this machine, the same in all its processes (CLOCK_MONOTONIC). */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
