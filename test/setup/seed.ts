/** The seed of random input, printed by each process that uses it. `SEED=… node test/run.ts …` repeats the input of a failure. */
import { randomInt } from 'node:crypto';

export const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31));
console.log(`SEED=${SEED}`);

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
export function seeded(seed: number) {
  return (): number => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
