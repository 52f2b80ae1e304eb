/** The search of the lists of the console, by one property at a time. */
import { parseId } from '#core/ids.ts';
import type { Condition } from '#core/listing.ts';
import { invalid, type Fault } from '#core/problem.ts';
import { isLegible } from '#core/text.ts';
import type { RawRequest } from '#http/route.ts';
import { readPage, type Page } from '#hypermedia/paging.ts';

/** A list of the console that is searched by one property at a time. */
export type List = { path: string; title: string; things: string; by: readonly string[]; headings: readonly string[] };

/** Throws a 400 for a text that is no id. */
export function idOf(text: string): number {
  const id = parseId(text);
  if (id === undefined) throw invalid({ code: 'invalid_value', message: 'An ID is a positive number', field: 'q' });
  return id;
}

export type Search = { by: string; text: string; page: Page };

/** Properties that are compared exactly; of others the value contains the text. */
const EXACT: ReadonlySet<string> = new Set(['id', 'client_id']);

function conditionOf({ by, text }: Search): Condition {
  if (!EXACT.has(by))
    return { property: by, operator: 'like', value: `*${text.replaceAll(/[*\\]/g, String.raw`\$&`)}*` };
  return { property: by, operator: 'is', value: by === 'id' ? idOf(text) : text };
}

/** Returns the filters of a search, none for the whole list. Throws a 400 for a text that is no id. */
export function filtersOf(search: Search): Condition[] {
  return search.text === '' ? [] : [conditionOf(search)];
}

/** Returns the search of a request: by the first property if it names none. Throws a 400 for a faulty parameter. */
export function readSearch({ query }: RawRequest, by: readonly string[]): Search {
  const faults: Fault[] = [];
  const page = readPage(query, faults);
  const text = query.get('q')?.trim() ?? '';
  if (!isLegible(text))
    faults.push({ code: 'invalid_value', message: 'q must have no control characters', field: 'q' });
  if (faults.length > 0) throw invalid(...faults);
  const [first = ''] = by;
  return { by: by.find((name) => name === query.get('by')) ?? first, text, page };
}
