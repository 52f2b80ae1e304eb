/** Returns the path prefix of an address without a trailing slash: empty unless a proxy adds a prefix. */
export const rootOf = (address: string): string => new URL(address).pathname.replace(/\/+$/, '');

/** Returns the address of the API's home as it is routed: it ends with a slash only if it has no path. */
export const homeOf = (baseUrl: string): string => new URL(baseUrl).href;
