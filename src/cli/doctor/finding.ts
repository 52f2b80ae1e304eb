/** What a check found, and what somebody should do about it. */
export type Finding = {
  /** A word that says what was looked at. */
  check: string;
  state: 'ok' | 'warn' | 'fail';
  message: string;
  /** What to do; nothing where all is well. */
  advice?: string;
};

export const ok = (check: string, message: string): Finding => ({ check, state: 'ok', message });

/** Something that works now, and may not for long. */
export const warn = (check: string, message: string, advice: string): Finding => ({
  check,
  state: 'warn',
  message,
  advice,
});

/** Something that does not work. */
export const fail = (check: string, message: string, advice: string): Finding => ({
  check,
  state: 'fail',
  message,
  advice,
});

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** `1 shard`, `2,000 shards`; `many` where it is another word than `one` with an s. */
export const countOf = (count: number, one: string, many = `${one}s`): string =>
  `${whole.format(count)} ${count === 1 ? one : many}`;

const UNITS = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
] as const;

/** In the largest unit of which there are two. */
export const spanOf = (seconds: number): string => {
  const [size, unit] = UNITS.find(([each]) => seconds >= 2 * each) ?? [1, 'second'];
  return countOf(Math.floor(seconds / size), unit);
};
