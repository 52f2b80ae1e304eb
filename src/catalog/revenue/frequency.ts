/** Converts the billing frequency of a subscription to periods per month. */

type Fraction = { numerator: bigint; denominator: bigint };

const FREQUENCY = /^(\d{1,4})([dwmy])$/;

/**
 * Returns the number of periods of `30d`, `2w`, `1m`, `1y` or `.5m` (twice a month) in a month; undefined for other values. A
 * month is a twelfth of a year of 365 days, so a subscription has the same monthly revenue in February and in March.
 */
export function periodsPerMonth(frequency: unknown): Fraction | undefined {
  if (frequency === '.5m') return { numerator: 2n, denominator: 1n };
  const [, count = '0', unit = ''] = typeof frequency === 'string' ? (FREQUENCY.exec(frequency) ?? []) : [];
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
}
