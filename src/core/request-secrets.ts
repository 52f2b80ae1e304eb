/**
 * The secrets in the request of a webhook: the query of its url and the values of its headers, which often are tokens. A row has
 * them sealed, as one text, and shows the url up to its query and the names of the headers. Pure.
 */
import { codePoints } from './text.ts';

/** A header's value is null if it is sealed, hidden or cannot be opened. */
export type Headers = Readonly<Record<string, string | null>>;
export type Addressed = { url: string | null; headers: Headers };
type Opened = { url: string | null; headers: Readonly<Record<string, string>> };

const HIDDEN = '***';

/** Returns the url as two parts; `query` is null if there is no question mark. */
function splitUrl(url: string): { before: string; query: string | null } {
  const at = url.indexOf('?');
  return at === -1 ? { before: url, query: null } : { before: url.slice(0, at), query: url.slice(at + 1) };
}

/** Returns the headers with null for each value. */
export function namesOf(headers: Headers): Headers {
  return Object.fromEntries(Object.keys(headers).map((name) => [name, null]));
}

/** Returns what a row shows, and the text to seal: null if nothing is secret. */
export function withoutSecrets({ url, headers }: Addressed): Addressed & { secrets: string | null } {
  const before = url === null ? null : splitUrl(url).before;
  const hasSecrets = before !== url || Object.keys(headers).length > 0;
  return { url: before, headers: namesOf(headers), secrets: hasSecrets ? JSON.stringify({ url, headers }) : null };
}

/** Returns the url and the headers of a row, with its opened text; a row without one has no query and no headers. */
export function withSecrets(row: Addressed, secrets: string | null): Opened {
  return (secrets === null ? row : JSON.parse(secrets)) as Opened;
}

/** `token=abc&SECRET` is shown as `token=***&***`. */
function hiddenPart(part: string): string {
  const at = part.indexOf('=');
  return part.slice(0, at + 1) + HIDDEN;
}

/** Returns the url with each value of its query hidden, or the query as a whole if that would be longer than `lengthMax`. */
export function withHiddenQuery(url: string, lengthMax: number): string {
  const { before, query } = splitUrl(url);
  if (query === null || query === '') return url;
  const shown = `${before}?${query.split('&').map(hiddenPart).join('&')}`;
  // Never longer than the url itself, so that what is shown can be sent back.
  return codePoints(shown) <= lengthMax ? shown : `${before}?${HIDDEN.slice(0, query.length)}`;
}

/** Returns whether a value in the query of the url is the sign for a hidden one. */
export function hasHiddenValue(url: string): boolean {
  return /[?&=]\*{3}(?:&|$)/.test(url);
}
