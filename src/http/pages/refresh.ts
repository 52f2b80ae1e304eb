/**
 * Reloads pages that wait for something, by the `Refresh` header: axe reports any delayed `<meta
 * http-equiv="refresh">`, although it can be stopped as WCAG 2.2.1 requires.
 */
import type { Document } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { DONE } from './done.ts';

/** The parameter; `0` stops reloading. Only pages know it. */
export const REFRESH = 'refresh';

/** Returns whether the page has a form with fields: a reload would lose the input. */
const hasInput = ({ actions = [] }: Document): boolean => actions.some(({ fields }) => fields.length > 0);

type Refresh = NonNullable<View['refresh']>;

/** Returns the refresh notice of a page and its header; undefined if the document waits for nothing. */
export function refreshOf(
  document: Document,
  path: string,
  query: URLSearchParams,
): { refresh: Refresh; header: string | undefined } | undefined {
  const { refreshSeconds: seconds } = document;
  if (seconds === undefined || hasInput(document)) return undefined;
  const isStopped = query.get(REFRESH) === '0';
  const here = new URLSearchParams(query);
  // The message of a completed action is not repeated.
  here.delete(DONE);
  here.delete(REFRESH);
  const address = (parameters: URLSearchParams): string =>
    parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
  const again = address(here);
  here.set(REFRESH, '0');
  const refresh = { seconds, isStopped, href: isStopped ? again : address(here) };
  return { refresh, header: isStopped ? undefined : `${seconds}; url=${again}` };
}
