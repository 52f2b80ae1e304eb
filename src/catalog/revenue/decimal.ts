/** Exact decimal arithmetic, because floating point numbers would add rounding errors to sums of money. */
import { isNumber } from '#hypermedia/document.ts';

/** `digits` × 10^-`places`. */
export type Decimal = { digits: bigint; places: number };

export const ZERO: Decimal = { digits: 0n, places: 0 };

const DECIMAL_TEXT = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/;
/** Longer texts are not plausible amounts and would cost processor time. */
const LENGTH_MAX = 64;

/**
 * Parses a number or its text (`19.99`, `"1e3"`); returns undefined for anything else. A number is read as it is printed, so
 * 0.1 is exactly a tenth.
 */
export function readDecimal(value: unknown): Decimal | undefined {
  if (!isNumber(value) && typeof value !== 'string') return undefined;
  const text = String(value).trim();
  if (text.length > LENGTH_MAX) return undefined;
  const [found, sign, whole = '', fraction = '', exponent = '0'] = DECIMAL_TEXT.exec(text) ?? [];
  if (found === undefined || whole + fraction === '') return undefined;
  const places = fraction.length - Number(exponent);
  const digits = BigInt(whole + fraction) * (sign === '-' ? -1n : 1n);
  return places < 0 ? { digits: digits * 10n ** BigInt(-places), places: 0 } : { digits, places };
}

export function plus(a: Decimal, b: Decimal): Decimal {
  const places = Math.max(a.places, b.places);
  const digitsOf = (one: Decimal) => one.digits * 10n ** BigInt(places - one.places);
  return { digits: digitsOf(a) + digitsOf(b), places };
}

export function times(a: Decimal, b: Decimal): Decimal {
  return {
    digits: a.digits * b.digits,
    places: a.places + b.places,
  };
}

const MILLION = 1_000_000n;

/**
 * Returns the quotient of two positive numbers, rounded half to even, so that rounding errors do not accumulate in one
 * direction.
 */
function divideHalfEven(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor;
  const twice = 2n * (dividend % divisor);
  const roundsUp = twice > divisor || (twice === divisor && quotient % 2n === 1n);
  return roundsUp ? quotient + 1n : quotient;
}

/** Returns a non-negative decimal times a fraction in millionths, rounded once, half to even. */
export function millionthsOf({ digits, places }: Decimal, by: { numerator: bigint; denominator: bigint }): bigint {
  return divideHalfEven(digits * by.numerator * MILLION, by.denominator * 10n ** BigInt(places));
}

/** Returns millionths as a decimal text without trailing zeros: 4180500000 is `4180.5`. */
export function textOfMillionths(millionths: bigint): string {
  const sign = millionths < 0n ? '-' : '';
  const size = millionths < 0n ? -millionths : millionths;
  const fraction = String(size % MILLION)
    .padStart(6, '0')
    .replace(/0+$/, '');
  return `${sign}${size / MILLION}${fraction && `.${fraction}`}`;
}
