/** How often a subscription is billed, and which part of a period a month is. */

type Fraction = { numerator: bigint; denominator: bigint };

const WRITTEN = /^(\d{1,4})([dwmy])$/;

/**
 * How many periods of `30d`, `2w`, `1m`, `1y` or `.5m` (twice a month) a month has; undefined where the frequency says
 * nothing of the kind. A month is the twelfth of a year, and a year of days and weeks has 365 of them: so the same
 * subscription brings the same in February and in March.
 */
export const periodsAMonth = (frequency: unknown): Fraction | undefined => {
  if (frequency === '.5m') return { numerator: 2n, denominator: 1n };
  const [, count = '0', unit = ''] = typeof frequency === 'string' ? (WRITTEN.exec(frequency) ?? []) : [];
  const n = BigInt(count);
  if (n === 0n) return undefined;
  switch (unit) {
    case 'd':
      return { numerator: 365n, denominator: 12n * n };
    case 'w':
      return { numerator: 365n, denominator: 84n * n };
    case 'm':
      return { numerator: 1n, denominator: n };
    default:
      return { numerator: 1n, denominator: 12n * n };
  }
};
