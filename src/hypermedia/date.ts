/** Dates as every representation writes them: ISO 8601 in a zone of their own, numeric offset, no colon. */
import { LRUCache } from 'lru-cache';

const QUARTER_MS = 15 * 60_000;
/** What a zone's clock showed in a quarter of an hour: no zone has changed its offset within one that begins on it since 1973. */
const OFFSETS_MAX = 10_000;

/** There are about 600 IANA zones, but a zone may be spelled in as many ways as it has letters. */
const FORMATS_MAX = 700;

/** Making one costs 50 µs, so they are kept. */
const formats = new LRUCache<string, Intl.DateTimeFormat>({
  max: FORMATS_MAX,
  memoMethod: (timeZone) => new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' }),
});

/** `GMT+05:30`, `GMT`, and from before there were zones `GMT-00:01:15`, in minutes: seconds cannot be written. */
const minutesOf = (name: string): number => {
  const [, sign, hours = '0', minutes = '0'] = /([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
};

const offsets = new LRUCache<string, number>({ max: OFFSETS_MAX });

/** Minutes that the zone is ahead of UTC at that moment. */
const offsetAt = (at: Date, timeZone: string): number => {
  if (timeZone === 'UTC') return 0;
  const key = `${timeZone} ${Math.floor(at.getTime() / QUARTER_MS)}`;
  let minutes = offsets.get(key);
  if (minutes === undefined) {
    const parts = formats.memo(timeZone).formatToParts(at);
    minutes = minutesOf(parts.find(({ type }) => type === 'timeZoneName')?.value ?? '');
    offsets.set(key, minutes);
  }
  return minutes;
};

const two = (n: number): string => String(n).padStart(2, '0');

/**
 * `2026-11-20T16:05:03+0000`: ISO 8601 in the given IANA time zone, numeric offset without a colon. The zone's offset is
 * remembered: asked for all parts each time, Intl took 3 µs a date, two of which stand in every representation.
 */
export const formatDate = (at: Date, timeZone: string): string => {
  const minutes = offsetAt(at, timeZone);
  const shown = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, 19);
  const ahead = Math.abs(minutes);
  return `${shown}${minutes < 0 ? '-' : '+'}${two(Math.floor(ahead / 60))}${two(ahead % 60)}`;
};

const WRITTEN = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(\.\d{1,9})?(?:Z|([+ -]\d\d):?(\d\d))?)?$/;

/**
 * Reads `2026-11-20`, `2026-11-20T16:05` and `2026-11-20T16:05:03+0000`: the offset with a colon, as `Z` or absent (UTC)
 * too, and with a blank for its `+`, which is what a query makes of one that was not encoded. Undefined where it is none.
 */
export const parseDate = (text: string): Date | undefined => {
  const [found, day, time = '00:00', seconds = ':00', fraction = '', hours = '+00', minutes = '00'] =
    WRITTEN.exec(text) ?? [];
  if (found === undefined) return undefined;
  const written = `${day}T${time}${seconds}`;
  const local = new Date(`${written}Z`);
  // 30 February and the hour 24 are taken for the day after.
  if (Number.isNaN(local.getTime()) || local.toISOString().slice(0, written.length) !== written) return undefined;
  const at = new Date(`${written}${fraction}${hours.replace(' ', '+')}:${minutes}`);
  // Years that PostgreSQL would read otherwise, or not at all.
  return at.getUTCFullYear() >= 1 && at.getUTCFullYear() <= 9999 ? at : undefined;
};
