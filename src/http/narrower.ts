/** Offers a narrower search in place of one that took too long. */
import { formatDate } from '#hypermedia/date.ts';
import type { Search } from '#hypermedia/document.ts';
import { TOO_MUCH_TO_SEARCH } from '#db/search.ts';
import type { Filter } from '#core/listing.ts';
import { Problem } from '#core/problem.ts';

const HOUR_MS = 3_600_000;
/** The first offer for a search without a beginning. */
const FIRST_OFFER_MS = 7 * 24 * HOUR_MS;

/** A search that took too long, with the query of the same search of a shorter time and the form that shows it. */
export class TooWide extends Problem {
  readonly narrower: { query: URLSearchParams; title: string; form: Search };

  constructor({ status, faults, headers, cause }: Problem, narrower: TooWide['narrower']) {
    super(status, faults, { headers, cause });
    this.narrower = narrower;
  }
}

/**
 * Returns where the newer half of the range of dates begins, or the last week of a range without a beginning; undefined if the range
 * is an hour or shorter.
 */
function narrowerFrom(filters: readonly Filter[], property: string, now: Date): Date | undefined {
  const ofDate = filters.filter((filter) => filter.property === property);
  const datesOf = (...operators: Filter['operator'][]): number[] =>
    ofDate.flatMap(({ operator, value }) =>
      operators.includes(operator) && value instanceof Date ? [value.getTime()] : [],
    );
  if (ofDate.some(({ operator }) => operator === 'in') || datesOf('is').length > 0) return undefined;
  const from = Math.max(...datesOf('greaterthan', 'greaterthanorequal'));
  const before = Math.min(...datesOf('lessthan', 'lessthanorequal'));
  const to = before === Infinity ? now.getTime() : before;
  if (from === -Infinity) return new Date(to - FIRST_OFFER_MS);
  return to - from > HOUR_MS ? new Date((from + to) / 2) : undefined;
}

/** Returns the error with a narrower search, if it is that of a search that took too long and there is one. */
export async function withNarrower(
  error: unknown,
  { query, now, zone }: { query: URLSearchParams; now: Date; zone: () => Promise<string> },
  { filters, property, fields }: { filters: readonly Filter[]; property: string; fields: Search['fields'] },
): Promise<unknown> {
  if (!(error instanceof Problem) || error.faults[0]?.code !== TOO_MUCH_TO_SEARCH) return error;
  const from = narrowerFrom(filters, property, now);
  if (from === undefined) return error;
  const narrower = new URLSearchParams(query);
  // The page of the wider search is another one of this.
  narrower.delete('offset');
  const timeZone = await zone();
  const date = formatDate(from, timeZone);
  narrower.set(`${property}:greaterthan`, date);
  return new TooWide(error, {
    query: narrower,
    title: `The same search from ${date} on`,
    form: { at: 'related', fields, timeZone },
  });
}
