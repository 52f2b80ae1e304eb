/** The query of an API request, or a 400 that names the parameter that cannot be read. */
import { invalid } from '#core/problem.ts';
import { decodes } from './bodies/utf8.ts';

/**
 * A repeated parameter stays repeated. `raw` comes without its `?`; what is not percent-encoded UTF-8 would be taken for a
 * search for U+FFFD, which finds nothing and tells nobody why (WHATWG URL, form parser).
 */
export const readQuery = (raw: string): URLSearchParams => {
  const broken = raw.split('&').find((pair) => !decodes(pair) || /[^\x21-\x7e]/.test(pair));
  if (broken === undefined) return new URLSearchParams(raw);
  const [name = ''] = new URLSearchParams(broken).keys();
  const message = `${name || 'The query'} is not percent-encoded UTF-8: write each octet that is no plain character as %41 is written`;
  throw invalid({ code: 'malformed_request', message, ...(name !== '' && { field: name }) });
};
