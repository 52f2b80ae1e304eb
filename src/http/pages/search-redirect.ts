/**
 * Converts the query of a search form into the query that a program would send, and redirects the browser there. A
 * browser sends empty fields, which a filter reads as "not set", and times without a zone, which a filter reads as UTC.
 */
import { formatDate, parseDate } from '#hypermedia/date.ts';
import { SEARCH, withWildcards } from '#hypermedia/html/search-form.ts';

/** The format of `datetime-local`. */
const LOCAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?$/;

/** Fields of dates; a text that looks like a date stays as it is. */
const DATED = /:(?:greater|less)than(?:orequal)?$/;

function inZone(name: string, value: string, timeZone: string): string {
  if (!DATED.test(name) || !LOCAL.test(value)) return value;
  try {
    const at = parseDate(value, timeZone);
    // The filter reports an invalid day, or the time without a zone.
    return at === undefined ? value : formatDate(at, timeZone);
  } catch {
    return value;
  }
}

/** Returns the query of the API; undefined if the query was not sent by a search form. */
export function searchedQuery(query: URLSearchParams): URLSearchParams | undefined {
  const timeZone = query.get(SEARCH);
  if (timeZone === null) return undefined;
  const parameters = [...query].filter(([name, value]) => name !== SEARCH && value.trim() !== '');
  return new URLSearchParams(
    parameters.map(([name, value]) => withWildcards(name, inZone(name, value.trim(), timeZone))),
  );
}
