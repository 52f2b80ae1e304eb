/** Dates of representations: ISO 8601 in the time zone of the store, with a numeric offset without colon. */
import { LRUCache } from 'lru-cache';

const QUARTER_MS = 15 * 60_000;
/** Cached offsets per zone and quarter of an hour: since 1973 no zone has changed its offset within one. */
const OFFSETS_MAX = 10_000;

/** There are about 600 IANA zones, but the spelling of a zone is case-insensitive. */
const FORMATS_MAX = 700;

/** Cached, because creating a format costs 50 µs. */
const formats = new LRUCache<string, Intl.DateTimeFormat>({
  max: FORMATS_MAX,
  memoMethod: (timeZone) => new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' }),
});

/** Returns the minutes of `GMT+05:30`, `GMT` or the local mean time `GMT-00:01:15`; seconds cannot be represented. */
function minutesOf(name: string): number {
  const [, sign, hours = '0', minutes = '0'] = /([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}

const offsets = new LRUCache<string, number>({ max: OFFSETS_MAX });

/** Returns the offset of the zone from UTC at that time, in minutes. */
function offsetAt(at: Date, timeZone: string): number {
  if (timeZone === 'UTC') return 0;
  const key = `${timeZone} ${Math.floor(at.getTime() / QUARTER_MS)}`;
  let minutes = offsets.get(key);
  if (minutes === undefined) {
    const parts = formats.memo(timeZone).formatToParts(at);
    minutes = minutesOf(parts.find(({ type }) => type === 'timeZoneName')?.value ?? '');
    offsets.set(key, minutes);
  }
  return minutes;
}

const two = (n: number): string => String(n).padStart(2, '0');

/**
 * Returns the date in the given IANA time zone as `2026-11-20T16:05:03+0000`: ISO 8601, numeric offset without a colon.
 * The offset is cached: formatting all parts with Intl took 3 µs per date, and every representation has two.
 */
export function formatDate(at: Date, timeZone: string): string {
  const minutes = offsetAt(at, timeZone);
  const shown = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, 19);
  const ahead = Math.abs(minutes);
  return `${shown}${minutes < 0 ? '-' : '+'}${two(Math.floor(ahead / 60))}${two(ahead % 60)}`;
}

const SECOND_MS = 1_000;
const [TO_MINUTES, TO_SECONDS] = ['yyyy-mm-ddThh:mm'.length, 'yyyy-mm-ddThh:mm:ss'.length];

/**
 * Returns the date as a field of a page contains it: `2026-11-20T16:05`, with seconds if there are any. `parseDate` returns the same
 * second for it. The second of two equal times has its offset, because `parseDate` returns the first one without.
 */
export function localDate(at: Date, timeZone: string): string {
  const written = formatDate(at, timeZone);
  const local = written.slice(0, written.slice(TO_MINUTES, TO_SECONDS) === ':00' ? TO_MINUTES : TO_SECONDS);
  const second = Math.floor(at.getTime() / SECOND_MS) * SECOND_MS;
  return parseDate(local, timeZone)?.getTime() === second ? local : written;
}

const WRITTEN = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(\.\d{1,9})?(Z|([+ -]\d\d):?(\d\d))?)?$/;

/**
 * Parses `2026-11-20`, `2026-11-20T16:05` and `2026-11-20T16:05:03+0000`. The offset may have a colon, be `Z`, and begin with a
 * blank, which is an unencoded `+` in a query. A date without an offset is in the given time zone. Returns undefined for other texts.
 *
 * Where clocks are changed (RFC 5545 §3.3.5): a time that occurs twice is the first one, and a time that is skipped has the offset from
 * before the change, so it is as much later as was skipped (02:30 is 03:30).
 */
export function parseDate(text: string, timeZone = 'UTC'): Date | undefined {
  const [found, day, time = '00:00', seconds = ':00', fraction = '', offset, hours = '+00', minutes = '00'] =
    WRITTEN.exec(text) ?? [];
  if (found === undefined) return undefined;
  const written = `${day}T${time}${seconds}`;
  const local = new Date(`${written}Z`);
  // Date accepts 30 February and the hour 24 as the following day.
  if (Number.isNaN(local.getTime()) || local.toISOString().slice(0, written.length) !== written) return undefined;
  const isLocal = offset === undefined && timeZone !== 'UTC';
  const at = isLocal
    ? new Date(Temporal.PlainDateTime.from(`${written}${fraction}`).toZonedDateTime(timeZone).epochMilliseconds)
    : new Date(`${written}${fraction}${hours.replace(' ', '+')}:${minutes}`);
  // PostgreSQL reads other years differently, or rejects them.
  return at.getUTCFullYear() >= 1 && at.getUTCFullYear() <= 9999 ? at : undefined;
}

/** Returns whether the text is a date whose time depends on the time zone. */
export function isLocalDate(text: string): boolean {
  const found = WRITTEN.exec(text);
  return found !== null && found[5] === undefined;
}
