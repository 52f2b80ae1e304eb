/** Decimal numbers that stay exact: an amount of money is never a floating point number on its way through a sum. */

/** `digits` × 10^-`places`. */
export type Decimal = { digits: bigint; places: number };

export const ZERO: Decimal = { digits: 0n, places: 0 };

const WRITTEN = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/;
/** What is longer is nobody's amount, and would only cost time. */
const LENGTH_MAX = 64;

/**
 * Reads a number or its text (`19.99`, `"1e3"`); undefined where it is none. A number is read as it is written, so 0.1 is
 * a tenth and not the nearest fraction of two.
 */
export const readDecimal = (value: unknown): Decimal | undefined => {
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  const text = String(value).trim();
  if (text.length > LENGTH_MAX) return undefined;
  const [found, sign, whole = '', fraction = '', exponent = '0'] = WRITTEN.exec(text) ?? [];
  if (found === undefined || whole + fraction === '') return undefined;
  const places = fraction.length - Number(exponent);
  const digits = BigInt(whole + fraction) * (sign === '-' ? -1n : 1n);
  return places < 0 ? { digits: digits * 10n ** BigInt(-places), places: 0 } : { digits, places };
};

export const plus = (a: Decimal, b: Decimal): Decimal => {
  const places = Math.max(a.places, b.places);
  const digitsOf = (one: Decimal) => one.digits * 10n ** BigInt(places - one.places);
  return { digits: digitsOf(a) + digitsOf(b), places };
};

export const times = (a: Decimal, b: Decimal): Decimal => ({
  digits: a.digits * b.digits,
  places: a.places + b.places,
});

const MILLION = 1_000_000n;

/** The quotient, half to even: so that many halves, each rounded for itself, do not add up to a drift. Both are positive. */
const divided = (dividend: bigint, divisor: bigint): bigint => {
  const quotient = dividend / divisor;
  const twice = 2n * (dividend % divisor);
  const isUp = twice > divisor || (twice === divisor && quotient % 2n === 1n);
  return isUp ? quotient + 1n : quotient;
};

/** A decimal that is not negative, times a fraction: in millionths, rounded half to even once. */
export const millionthsOf = ({ digits, places }: Decimal, by: { numerator: bigint; denominator: bigint }): bigint =>
  divided(digits * by.numerator * MILLION, by.denominator * 10n ** BigInt(places));

/** `4180.5` of 4180500000 millionths: every digit, and no zeros at the end. */
export const textOfMillionths = (millionths: bigint): string => {
  const sign = millionths < 0n ? '-' : '';
  const size = millionths < 0n ? -millionths : millionths;
  const fraction = String(size % MILLION)
    .padStart(6, '0')
    .replace(/0+$/, '');
  return `${sign}${size / MILLION}${fraction && `.${fraction}`}`;
};
