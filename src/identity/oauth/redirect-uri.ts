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
 * A loopback address in the three parts before, of and after its port. Not `localhost`, which a hosts file or a resolver
 * may lead elsewhere (RFC 8252 §8.3). Nothing that begins otherwise than with `/` or `?` may follow the port.
 */
const LOOPBACK_ADDRESS = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]))(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)$/s;
const PORT_MAX = 65_535;

/** The address without its port where the port of it may vary, else undefined. */
const withoutPort = (uri: string): string | undefined => {
  const [, host, port = '80', rest] = LOOPBACK_ADDRESS.exec(uri) ?? [];
  return host === undefined || Number(port) > PORT_MAX ? undefined : `${host}${rest}`;
};

/**
 * Octet for octet the same (RFC 9700 §2.1). An app on a person's computer listens on whatever port is free, so the
 * loopback addresses of public clients may differ in that, and in nothing else (RFC 8252 §7.3).
 */
export const isSameRedirect = (registered: string, given: string, isPublic: boolean): boolean => {
  if (registered === given) return true;
  const portless = isPublic ? withoutPort(given) : undefined;
  return portless !== undefined && portless === withoutPort(registered);
};

/**
 * The sources that `form-action` lists for a form whose answer redirects to `uri`. Chromium holds every further redirect
 * against the list, too, and drops it without a word: a client that passes its visitor on from the callback to another
 * host of its own would have a dead Allow button. So beside the origin stands what callbacks pass on to: any https:
 * address, and from a loopback address any port of this computer, where a developer has the other half of an app.
 * That costs nothing: the page has no secret but its nonce, which is worth nothing without the session's cookie.
 *
 * The grammar knows neither IPv6 addresses nor the paths of app schemes: for these it is the scheme.
 */
export const formTargets = (uri: string): string[] => {
  const { protocol, hostname, origin } = new URL(uri);
  const hasName = NAME.test(hostname);
  if (protocol === 'https:') return hasName ? [origin, 'https:'] : ['https:'];
  if (protocol === 'http:')
    return hasName ? ['http://localhost:*', 'http://127.0.0.1:*', 'https:'] : ['http:', 'https:'];
  return [protocol];
};

/** What a person is told about where they will be sent: the host, or an app's scheme. */
export const shownHost = (uri: string): string => {
  const { protocol, host } = new URL(uri);
  if (protocol === 'https:') return host;
  return protocol === 'http:' ? `${host} (an app on this computer)` : `${protocol} (an app on this device)`;
};
