/** A shell command that repeats the request of a delivery, without its secrets. */
import { harmless } from '#core/legible.ts';
import { isJson } from './code.ts';

export type ShownRequest = {
  method: string;
  url: string;
  /** One `name: value` per line, in the order in which they are sent. */
  headers: string;
  body: string;
};

/** Returns the text as one word of a POSIX shell: between single quotes only a single quote has a meaning. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * The last header that Halcyon sends beside the secret ones: the additional headers of the webhook follow, then signatures or the
 * token of a platform (`delivery/attempt/request.ts`).
 */
const LAST_OPEN_HEADER = /^webhook-timestamp:/im;
/** Made by curl itself. */
const OF_CURL = /^(?:host|content-length|connection|accept-encoding):/i;

/** Returns the headers without additional ones, signatures and tokens. */
function openHeaders(headers: string): string[] {
  const lines = headers.split('\n');
  const last = lines.findIndex((line) => LAST_OPEN_HEADER.test(line));
  return lines.slice(0, last + 1).filter((line) => !OF_CURL.test(line));
}

/** Returns the argument of `--header`; curl sends an empty value only if a semicolon ends the name. */
const headerArgument = (line: string): string => line.replace(/^([^:]+):\s*$/, '$1;');

/** Returns the address without user, query and fragment, which may contain a token. */
function openUrl(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const { origin, pathname, protocol } = new URL(url);
  return /^https?:$/.test(protocol) ? origin + pathname : undefined;
}

/** Returns the code unit as JSON writes it in a string: `\u202e`. */
const escaped = (character: string): string => String.raw`\u` + character.charCodeAt(0).toString(16).padStart(4, '0');

/** Returns the body with characters that a page must not contain escaped; undefined if it is not JSON, where they cannot be escaped. */
function printable(body: string): string | undefined {
  if (harmless(body) === body) return body;
  const printed = Array.from(body, (character) => (harmless(character) === character ? character : escaped(character)));
  const text = printed.join('');
  return isJson(body) && isJson(text) ? text : undefined;
}

/** Returns the command; undefined if no command sends this request. */
export function curlCommand({ method, url, headers, body }: ShownRequest): string | undefined {
  const [target, data] = [openUrl(url), printable(body)];
  // An encrypted body is shown decrypted.
  if (target === undefined || data === undefined || /^content-type: application\/jose/im.test(headers))
    return undefined;
  const parts = [
    // Without --globoff, curl would expand brackets in the address.
    `curl --globoff --request ${method} ${shellWord(target)}`,
    ...openHeaders(headers).map((line) => `--header ${shellWord(headerArgument(line))}`),
    // --data would read a file if the body began with @.
    `--data-raw ${shellWord(data)}`,
  ];
  return parts.join(' \\\n  ');
}
