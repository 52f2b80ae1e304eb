/** The path under which an address of ours lives, without a slash at its end: empty unless a proxy keeps a prefix. */
export const rootOf = (address: string): string => new URL(address).pathname.replace(/\/+$/, '');
