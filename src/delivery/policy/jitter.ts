/** Every wait is lengthened by 0–20 % and never shortened, so that what failed together does not come back as one wave. */
const JITTER = 0.2;

/** `random` is in [0, 1). */
export const lengthened = (ms: number, random: number): number => ms * (1 + JITTER * random);
