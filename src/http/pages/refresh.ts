/**
 * Pages that wait ask for themselves again. By a header: axe finds fault with any delayed `<meta http-equiv="refresh">`, as it
 * does not see that it can be stopped, which is what WCAG 2.2.1 demands of it.
 */
import type { Document } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { DONE } from './done.ts';

/** The parameter: `0` stops it. Pages alone know it. */
export const REFRESH = 'refresh';

/** A form that somebody may be filling in would lose what was typed. */
const isTypedIn = ({ actions = [] }: Document): boolean => actions.some(({ fields }) => fields.length > 0);

type Refresh = NonNullable<View['refresh']>;

/** What a page says of its refreshing, and the header that does it; undefined where the document waits for nothing. */
export const refreshOf = (
  document: Document,
  path: string,
  query: URLSearchParams,
): { refresh: Refresh; header: string | undefined } | undefined => {
  const { refreshSeconds: seconds } = document;
  if (seconds === undefined || isTypedIn(document)) return undefined;
  const isStopped = query.get(REFRESH) === '0';
  const here = new URLSearchParams(query);
  // What was just done is not said again and again.
  here.delete(DONE);
  here.delete(REFRESH);
  const address = (parameters: URLSearchParams): string =>
    parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
  const again = address(here);
  here.set(REFRESH, '0');
  const refresh = { seconds, isStopped, href: isStopped ? again : address(here) };
  return { refresh, header: isStopped ? undefined : `${seconds}; url=${again}` };
};
