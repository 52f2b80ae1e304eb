/** The addresses of the server that are derived from its settings, and the challenge of a 401 of the API, which leads to them (RFC 6750 §3). */

export function rootOf(address: string): string {
  return new URL(address).pathname.replace(/\/+$/, '');
}

/** Returns the address of metadata about `address`: the well-known part precedes its path (RFC 8414 §3.1, RFC 9728 §3.1). */
export function wellKnown(name: string, address: string): string {
  return `${new URL(address).origin}/.well-known/${name}${rootOf(address)}`;
}

/** Returns the address of the API's home as it is routed: it ends with a slash only if it has no path. */
export function homeOf(baseUrl: string): string {
  return new URL(baseUrl).href;
}

export const REALM = 'Bearer realm="halcyon"';
export const INVALID_TOKEN = 'The access token provided is invalid';

/** Returns the address of the endpoint for agents, which is a resource of its own (RFC 9728, RFC 8707) with the same tokens. */
export function mcpAddressOf(baseUrl: string): string {
  return `${baseUrl}/mcp`;
}

/** Returns the address of the API's metadata (RFC 9728 §3). */
export function resourceMetadataOf(baseUrl: string): string {
  return wellKnown('oauth-protected-resource', baseUrl);
}

/**
 * Returns the value of `WWW-Authenticate`. `resource_metadata` leads a client that knows nothing but an address of the API to the
 * authorization server (RFC 9728 §5.1).
 */
export function bearerChallenge(baseUrl: string, error?: { code: string; description: string }): string {
  const reason = error === undefined ? '' : `, error="${error.code}", error_description="${error.description}"`;
  return `${REALM}${reason}, resource_metadata="${resourceMetadataOf(baseUrl)}"`;
}
