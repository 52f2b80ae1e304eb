import type { Naming } from './document.ts';

/** Link relations that IANA registers (RFC 8288 §4.2) and we use; every other one is ours and carries our prefix. */
const registered: ReadonlySet<string> = new Set(['self', 'first', 'prev', 'next', 'last', 'curies']);

export const isRegistered = (rel: string): boolean => registered.has(rel);

/** A relation as it stands in `rel`: ours with the prefix, which `templateOf` resolves. */
export const nameOf = (rel: string, { relationPrefix }: Naming): string =>
  isRegistered(rel) ? rel : `${relationPrefix}:${rel}`;

/**
 * Where the relations with our prefix are explained (RFC 6570). Joined here and below, so that V8 has them in one piece: one
 * concatenation among the values takes `JSON.stringify` off its fast path for the whole page, which then takes half as long
 * again.
 */
export const templateOf = ({ baseUrl }: Naming): string => [baseUrl, '/rels/{rel}'].join('');

/** A relation for formats that know no prefixes: the name that IANA registers, or the address where ours is explained. */
export const addressOfRelation = (rel: string, naming: Naming): string =>
  isRegistered(rel) ? rel : templateOf(naming).split('{rel}').join(encodeURIComponent(rel));
