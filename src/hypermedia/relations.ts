/** Link relations that IANA registers (RFC 8288 §4.2) and we use; every other one is ours and carries our prefix. */
const registered: ReadonlySet<string> = new Set(['self', 'first', 'prev', 'next', 'last', 'curies']);

export const isRegistered = (rel: string): boolean => registered.has(rel);
