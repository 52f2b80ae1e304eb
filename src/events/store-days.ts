/** The calendar days of stores. PostgreSQL reads no time zone: it lacks names that Node.js has, and takes CET for an offset. */
import { formatDate } from '#hypermedia/date.ts';

/** A snapshot is made this long after midnight: by then all publishes that began before midnight are committed. */
export const CLOSE_DELAY_MS = 10 * 60_000;

/** Returns the day in the time zone at that time, such as `2026-11-21`. */
export function dayAt(at: Date, timeZone: string): string {
  return formatDate(at, timeZone).slice(0, 10);
}

export function nextDay(day: string): string {
  return Temporal.PlainDate.from(day).add({ days: 1 }).toString();
}

/** Returns when a day ends in the time zone: the next midnight, or the first moment after it if the calendar has no such midnight. */
export function endOfDay(day: string, timeZone: string): Date {
  return new Date(Temporal.PlainDate.from(nextDay(day)).toZonedDateTime(timeZone).epochMilliseconds);
}

/** Returns when the snapshot of a day is due. */
export function dueAfter(day: string, timeZone: string): Date {
  return new Date(endOfDay(day, timeZone).getTime() + CLOSE_DELAY_MS);
}
