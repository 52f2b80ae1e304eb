/** Parses the query of an API request, or throws a 400 that names the malformed parameter. */
import { invalid } from '#core/problem.ts';
import { isDecodable } from './bodies/utf8.ts';

/**
 * Parses a query without its `?`; repeated parameters stay repeated. Invalid UTF-8 would become U+FFFD (WHATWG URL,
 * form parser) and silently find nothing.
 */
export const readQuery = (raw: string): URLSearchParams => {
  const broken = raw.split('&').find((pair) => !isDecodable(pair) || /[^\x21-\x7e]/.test(pair));
  if (broken === undefined) return new URLSearchParams(raw);
  const [name = ''] = new URLSearchParams(broken).keys();
  const message = `${name || 'The query'} is not percent-encoded UTF-8: encode every other octet, as %C3%A9`;
  throw invalid({ code: 'malformed_request', message, ...(name !== '' && { field: name }) });
};
