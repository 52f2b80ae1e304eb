const formats = new Map<string, Intl.DateTimeFormat>();

const formatOf = (timeZone: string): Intl.DateTimeFormat => {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-CA', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      timeZoneName: 'longOffset',
    });
    // Bounded by the number of IANA zones (about 600): making one costs 50 µs, so they are kept.
    formats.set(timeZone, format);
  }
  return format;
};

/** `2026-11-20T16:05:03+0000`: ISO 8601 in the given IANA time zone, numeric offset without a colon. */
export const formatDate = (at: Date, timeZone: string): string => {
  const parts: Record<string, string> = {};
  for (const part of formatOf(timeZone).formatToParts(at)) parts[part.type] = part.value;
  const offset = (parts['timeZoneName'] ?? '').replace('GMT', '').replace(':', '') || '+0000';
  return `${parts['year']}-${parts['month']}-${parts['day']}T${parts['hour']}:${parts['minute']}:${parts['second']}${offset}`;
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
