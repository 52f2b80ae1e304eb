import type { Naming } from './document.ts';

/** Link relations that IANA registers (RFC 8288 §4.2) and we use; every other one is ours and carries our prefix. */
const registered: ReadonlySet<string> = new Set(['self', 'first', 'prev', 'next', 'last', 'curies']);

export const isRegistered = (rel: string): boolean => registered.has(rel);

/** A relation as it stands in `rel`: ours with the prefix, which `templateOf` resolves. */
export const nameOf = (rel: string, { relationPrefix }: Naming): string =>
  isRegistered(rel) ? rel : `${relationPrefix}:${rel}`;

/** Where the relations with our prefix are explained (RFC 6570). */
export const templateOf = ({ baseUrl }: Naming): string => `${baseUrl}/rels/{rel}`;
