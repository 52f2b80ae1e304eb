/** The path under which an address of ours lives, without a slash at its end: empty unless a proxy keeps a prefix. */
export const rootOf = (address: string): string => new URL(address).pathname.replace(/\/+$/, '');

/** Where the API begins: the address as it is routed, which ends in a slash only where it has no path of its own. */
export const homeOf = (baseUrl: string): string => new URL(baseUrl).href;
