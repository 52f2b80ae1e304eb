/** Redirect addresses: validates, compares and displays them, and appends parameters. */

export const ADDRESS_LENGTH_MAX = 2_000;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
/** The characters of RFC 3986 without `#` (RFC 6749 §3.1.2: no fragment) and `*` (no wildcards). */
const CHARACTERS = /^[A-Za-z0-9\-._~:/?[\]@!$&'()+,;=%]+$/;
/** A host name or an IPv4 address. The URL standard also allows `;`, which would end a directive of the CSP. */
const NAME = /^[a-z0-9.-]+$/;
const IPV6 = /^\[[0-9a-f:.]+\]$/;
/** RFC 8252 §7.1: a private-use scheme is a reversed domain name, so it contains a period; `javascript:` does not. */
const APP_SCHEME = /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/;

/** Returns why an address cannot be one of a client, as the end of a sentence; undefined if it can. */
function whyNotAddress(uri: string): string | undefined {
  if (uri.length > ADDRESS_LENGTH_MAX) return `must be at most ${ADDRESS_LENGTH_MAX} characters`;
  if (uri.includes('#')) return 'must not have a fragment';
  if (uri.includes('*')) return 'must not have a wildcard: register each address';
  if (!CHARACTERS.test(uri) || !URL.canParse(uri)) return 'must be an absolute address of plain URL characters';
  const { protocol, hostname, username, password } = new URL(uri);
  if (APP_SCHEME.test(protocol)) return undefined;
  if (protocol !== 'https:' && protocol !== 'http:') return "must begin with https:, or with an app's own scheme";
  // Without the two slashes a browser still finds a host, although a person reads none.
  if (!/^https?:\/\/[^/]/i.test(uri)) return 'must be an absolute address such as https://app.example.com/callback';
  if (username !== '' || password !== '' || uri.split(/[/?]/, 3)[2]?.includes('@')) return 'must not have user-info';
  if (!NAME.test(hostname) && !IPV6.test(hostname)) return 'must have a host name of letters, digits, hyphens and dots';
  if (protocol === 'http:' && !LOOPBACK.has(hostname)) return 'must be https: (http: only for this computer itself)';
  return undefined;
}

/** The parameters of the response to an authorization request (RFC 6749 §4.1.2, RFC 9207), and `error_message`. */
const RESPONSE_PARAMETERS = ['code', 'state', 'iss', 'error', 'error_description', 'error_message'];
/** The parameters that the server adds to the address that starts an installation. */
const INSTALL_PARAMETERS = ['iss', 'store_id'];

/** Returns why an address has a parameter that the server adds to it: clients differ in which of the two they read. */
function whyNotExtensible(uri: string, added: readonly string[]): string | undefined {
  const { searchParams } = new URL(uri);
  const taken = added.find((name) => searchParams.has(name));
  return taken === undefined ? undefined : `must not have the parameter ${taken}, which is added to it`;
}

/** Returns why an address cannot be a redirect address, as the end of a sentence; undefined if it can. */
export function whyNotRegistrable(uri: string): string | undefined {
  return whyNotAddress(uri) ?? whyNotExtensible(uri, RESPONSE_PARAMETERS);
}

/** Returns why an address cannot be a link on the page of an app, as the end of a sentence; undefined if it can. */
export function whyNotLinkable(uri: string): string | undefined {
  return /^https:/i.test(uri) ? whyNotAddress(uri) : 'must begin with https:';
}

/**
 * Returns why an address cannot start an installation (OpenID Connect Core 1.0 §4), as the end of a sentence; undefined if it can.
 */
export function whyNotInitiating(uri: string): string | undefined {
  if (!/^https?:/i.test(uri)) return 'must begin with https:';
  return whyNotAddress(uri) ?? whyNotExtensible(uri, INSTALL_PARAMETERS);
}

/**
 * Returns the address with parameters appended to its query (RFC 6749 §3.1.2). Values are percent-encoded completely, a
 * space as %20, so every parser decodes the same text.
 */
export function withParameters(uri: string, parameters: Readonly<Record<string, string | undefined>>): string {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  const separator = !uri.includes('?') ? '?' : /[?&]$/.test(uri) ? '' : '&';
  return uri + separator + pairs.join('&');
}

/**
 * Matches a loopback address as three parts: before the port, the port, after it. The part after the port is empty or starts with `/` or
 * `?`. RFC 8252 §8.3 advises against `localhost`, but many native clients use it, and a free port leads no further than a registered one.
 */
const LOOPBACK_ADDRESS = /^(http:\/\/(?:localhost|127\.0\.0\.1|\[::1\]))(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)$/s;
const PORT_MAX = 65_535;

/** Returns a loopback address without its port; undefined for all other addresses. */
function withoutPort(uri: string): string | undefined {
  const [, host, port = '80', rest] = LOOPBACK_ADDRESS.exec(uri) ?? [];
  return host === undefined || Number(port) > PORT_MAX ? undefined : `${host}${rest}`;
}

/**
 * Compares redirect addresses exactly (RFC 9700 §2.1). Only the port of a public client's loopback address may differ,
 * because a native app listens on any free port (RFC 8252 §7.3).
 */
export function isSameRedirect(registered: string, received: string, isPublic: boolean): boolean {
  if (registered === received) return true;
  const portless = isPublic ? withoutPort(received) : undefined;
  return portless !== undefined && portless === withoutPort(registered);
}

/**
 * Returns the CSP `form-action` sources for a form whose response redirects to `uri`. Chromium also checks further redirects
 * against the list and blocks them silently, which would disable the Allow button of a client whose callback redirects to
 * another of its hosts. So the list also contains any https: address and, for a loopback address, any local port. This does
 * not weaken the page: its only secret is the nonce, which is useless without the session cookie.
 *
 * The CSP grammar supports neither IPv6 addresses nor paths of app schemes, so these are listed by scheme.
 */
export function formTargets(uri: string): string[] {
  const { protocol, hostname, origin } = new URL(uri);
  const hasName = NAME.test(hostname);
  if (protocol === 'https:') return hasName ? [origin, 'https:'] : ['https:'];
  if (protocol === 'http:')
    return hasName ? ['http://localhost:*', 'http://127.0.0.1:*', 'https:'] : ['http:', 'https:'];
  return [protocol];
}

/** Returns the displayed target of a redirect address: the host, or an app's scheme. */
export function shownHost(uri: string): string {
  const { protocol, host } = new URL(uri);
  if (protocol === 'https:') return host;
  return protocol === 'http:' ? `${host} (an app on this computer)` : `${protocol} (an app on this device)`;
}
