/** Reads `Retry-After`. Halcyon itself imports this file as `#retry-after`. */

const TIME = String.raw`(?<time>\d{2}:\d{2}:\d{2})`;
const MONTH = '(?<month>[A-Z][a-z]{2})';

/** The forms of an HTTP-date (RFC 9110 §5.6.7): IMF-fixdate, then the obsolete ones of RFC 850 and of asctime. */
const FORMS: readonly RegExp[] = [
  new RegExp(String.raw`^(?<weekday>[A-Z][a-z]{2}), (?<day>\d{2}) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`),
  new RegExp(
    String.raw`^(?<weekday>(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day), (?<day>\d{2})-${MONTH}-(?<year>\d{2}) ${TIME} GMT$`,
  ),
  new RegExp(String.raw`^(?<weekday>[A-Z][a-z]{2}) ${MONTH} (?<day>\d{2}| \d) ${TIME} (?<year>\d{4})$`),
];

/** Returns the year that ends with these digits and is at most 50 years in the future. */
function yearOf(digits: string, nowMs: number): string {
  if (digits.length === 4) return digits;
  const latest = new Date(nowMs).getUTCFullYear() + 50;
  return String(latest - ((latest - Number(digits)) % 100));
}

/** Returns the time of an HTTP-date; undefined for another text, 31 February and a wrong day of the week. */
function httpDateMs(text: string, nowMs: number): number | undefined {
  for (const form of FORMS) {
    const { weekday = '', day = '', month = '', year = '', time = '' } = form.exec(text)?.groups ?? {};
    if (weekday === '') continue;
    const fixdate = `${weekday.slice(0, 3)}, ${day.replace(' ', '0')} ${month} ${yearOf(year, nowMs)} ${time} GMT`;
    const date = new Date(fixdate);
    // toUTCString returns an IMF-fixdate. `Date` also accepts dates that do not exist.
    return date.toUTCString() === fixdate ? date.getTime() : undefined;
  }
  return undefined;
}

/**
 * Returns the delay of `Retry-After` (RFC 9110 §10.2.3), seconds or an HTTP-date, without a limit; 0 if it is absent, invalid or
 * past.
 */
export function retryAfterMs(header: string | null | undefined, nowMs: number): number {
  const text = header ?? '';
  if (/^\d+$/.test(text)) return Math.min(1000 * Number(text), Number.MAX_SAFE_INTEGER);
  return Math.max(0, (httpDateMs(text, nowMs) ?? nowMs) - nowMs);
}
