/**
 * What the form of a search sends, as the query that a program would have sent. A browser sends every field, and an empty one
 * means "not set" to a filter; it sends times without a zone, which are UTC to a filter. So the form's own query is never
 * read as one: it is turned into another, and the browser sent there, where the address says what is shown.
 */
import { formatDate } from '#hypermedia/date.ts';
import { SEARCH } from '#hypermedia/html/search.ts';

/** As `datetime-local` writes it. */
const LOCAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?$/;

const inZone = (value: string, timeZone: string): string => {
  if (!LOCAL.test(value)) return value;
  try {
    const { epochMilliseconds } = Temporal.PlainDateTime.from(value).toZonedDateTime(timeZone);
    return formatDate(new Date(epochMilliseconds), timeZone);
  } catch {
    // A day or a zone that is none: whoever reads the filter says so.
    return value;
  }
};

/** The query that is meant; undefined where no such form has sent it. */
export const searchedQuery = (query: URLSearchParams): URLSearchParams | undefined => {
  const timeZone = query.get(SEARCH);
  if (timeZone === null) return undefined;
  const meant = [...query].filter(([name, value]) => name !== SEARCH && value.trim() !== '');
  return new URLSearchParams(meant.map(([name, value]) => [name, inZone(value.trim(), timeZone)]));
};
