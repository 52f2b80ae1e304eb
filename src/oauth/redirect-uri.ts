/** Redirect addresses: which may be registered, and how parameters are put on them. */

const LENGTH_MAX = 2_000;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
/** The characters of RFC 3986 without `#` (RFC 6749 §3.1.2: no fragment) and `*` (no wildcards). */
const CHARACTERS = /^[A-Za-z0-9\-._~:/?[\]@!$&'()+,;=%]+$/;
/** A name or an IPv4 address. The URL standard allows more (`;`), which would end a directive of our CSP. */
const NAME = /^[a-z0-9.-]+$/;
const IPV6 = /^\[[0-9a-f:.]+\]$/;
/** RFC 8252 §7.1: an app's own scheme is a domain of its maker, reversed, so it has a period; `javascript:` has none. */
const APP_SCHEME = /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/;

/** Why an address cannot be registered, as the end of a sentence; undefined where it can. */
export const whyNotRegistrable = (uri: string): string | undefined => {
  if (uri.length > LENGTH_MAX) return `must be at most ${LENGTH_MAX} characters`;
  if (uri.includes('#')) return 'must not have a fragment';
  if (uri.includes('*')) return 'must not have a wildcard: register each address';
  if (!CHARACTERS.test(uri) || !URL.canParse(uri)) return 'must be an absolute address of plain URL characters';
  const { protocol, hostname, username, password } = new URL(uri);
  if (APP_SCHEME.test(protocol)) return undefined;
  if (protocol !== 'https:' && protocol !== 'http:') return "must begin with https:, or with an app's own scheme";
  // Without the two slashes a browser still finds a host, where a plain reader sees none.
  if (!/^https?:\/\/[^/]/i.test(uri)) return 'must be an absolute address such as https://app.example.com/callback';
  if (username !== '' || password !== '' || uri.split(/[/?]/, 3)[2]?.includes('@')) return 'must not have user-info';
  if (!NAME.test(hostname) && !IPV6.test(hostname)) return 'must have a host name of letters, digits, hyphens and dots';
  if (protocol === 'http:' && !LOOPBACK.has(hostname)) return 'must be https: (http: only for this computer itself)';
  return undefined;
};

/**
 * The address with parameters added, its own query kept (RFC 6749 §3.1.2). Each value is percent-encoded whole, a blank
 * as %20, so it decodes to the same text in every reader.
 */
export const withParameters = (uri: string, parameters: Readonly<Record<string, string | undefined>>): string => {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  const separator = !uri.includes('?') ? '?' : /[?&]$/.test(uri) ? '' : '&';
  return uri + separator + pairs.join('&');
};

/**
 * The source that `form-action` must list for a form whose answer redirects here. The grammar of the
 * Content-Security-Policy knows neither IPv6 addresses nor the paths of app schemes: for these it is the scheme.
 */
export const formTarget = (uri: string): string => {
  const { protocol, hostname, origin } = new URL(uri);
  return /^https?:$/.test(protocol) && NAME.test(hostname) ? origin : protocol;
};

/** What a person is told about where they will be sent: the host, or an app's scheme. */
export const shownHost = (uri: string): string => {
  const { protocol, host } = new URL(uri);
  return /^https?:$/.test(protocol) ? host : protocol;
};
