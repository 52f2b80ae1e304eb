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
