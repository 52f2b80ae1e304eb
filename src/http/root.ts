/** Returns the path prefix of an address without a trailing slash: empty unless a proxy adds a prefix. */
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
