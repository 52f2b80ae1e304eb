/** Dates on pages. */
import { localDate, parseDate } from './date.ts';
import { html, type Markup } from './markup.ts';

const dateFormat = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'UTC',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});

/** Returns `1 July 2026 at 10:00 UTC`. The zone is UTC, because the reader's is not known. */
export function shownDate(at: Date): Markup {
  return html`<time datetime="${at.toISOString()}">${dateFormat.format(at)} UTC</time>`;
}

const WRITTEN =
  /^([0-9]{4})-(0[1-9]|1[0-2])-([0-3][0-9])T([0-2][0-9]:[0-5][0-9])(:[0-5][0-9])(?:\.[0-9]+)?(?:Z|([+-])([0-9]{2}):?([0-9]{2}))$/;
const MONTHS = 'January February March April May June July August September October November December'.split(' ');

function offsetOf(sign: string, hours: string, minutes: string): string {
  if (hours === '00' && minutes === '00') return '';
  return `${sign === '-' ? '−' : '+'}${Number(hours)}${minutes === '00' ? '' : `:${minutes}`}`;
}

type Parts = { day: number; month: string; year: string; time: string; seconds: string; zone: string };

function read(written: string): Parts | undefined {
  const parts = WRITTEN.exec(written);
  if (parts === null) return undefined;
  const [, year = '', month, day, time = '', seconds = '', sign = '', hours = '00', minutes = '00'] = parts;
  const zone = `UTC${offsetOf(sign, hours, minutes)}`;
  return { day: Number(day), month: MONTHS[Number(month) - 1] ?? '', year, time, seconds, zone };
}

/**
 * Returns a date of `formatDate` or of a publisher as `1 July 2026 at 12:00 UTC+2`, in its time zone; undefined for other formats.
 * Without Intl, which would take longer than the rest of a page of 20 items with 40 dates.
 */
export function shownDateOf(written: string): Markup | undefined {
  const parts = read(written);
  if (parts === undefined) return undefined;
  const { day, month, year, time, zone } = parts;
  return html`<time datetime="${written}">${day} ${month} ${year} at ${time} ${zone}</time>`;
}

/** Returns the date with seconds, for comparison with logs: `1 July 2026 at 12:00:05 UTC+2`. */
export function exactDateOf(written: string): Markup | undefined {
  const parts = read(written);
  if (parts === undefined) return undefined;
  const { day, month, year, time, seconds, zone } = parts;
  return html`<time class="exact" datetime="${written}">${day} ${month} ${year} at ${time}${seconds} ${zone}</time>`;
}

/** Returns the time alone, `12:00 UTC+2`; empty for other formats. */
export function clockOf(written: string): string {
  const parts = read(written);
  return parts === undefined ? '' : `${parts.time} ${parts.zone}`;
}

/** Returns day and time in short, `1 Jul 12:00 UTC+2`; empty for other formats. */
export function momentOf(written: string): string {
  const parts = read(written);
  return parts === undefined ? '' : `${parts.day} ${parts.month.slice(0, 3)} ${parts.time} ${parts.zone}`;
}

/** Renders day and time in short; empty for other formats. */
export function shownMoment(written: string): Markup {
  return html`<time datetime="${written}">${momentOf(written)}</time>`;
}

/** Returns the day alone, `1 July 2026`; empty for other formats. */
export function dayOfDate(written: string): string {
  const parts = read(written);
  return parts === undefined ? '' : `${parts.day} ${parts.month} ${parts.year}`;
}

const LOCAL = /^(?:\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)?$/;

/**
 * Renders the input of a date in the time zone. It is a text field for what a browser would discard: a date with an offset
 * (`localDate`), and input that is no date.
 */
export function dateInput(written: string, timeZone: string, attributes: Markup): Markup {
  const at = parseDate(written, timeZone);
  const value = at === undefined ? written : localDate(at, timeZone);
  return html`<input type="${LOCAL.test(value) ? 'datetime-local' : 'text'}" ${attributes} value="${value}" />`;
}

/** Returns the date for a table cell: the day, and the time below it. */
export function briefDateOf(written: string): Markup | undefined {
  const parts = read(written);
  if (parts === undefined) return undefined;
  const { day, month, year, time, zone } = parts;
  return html`<time datetime="${written}">${day} ${month.slice(0, 3)} ${year} <span>${time} ${zone}</span></time>`;
}
