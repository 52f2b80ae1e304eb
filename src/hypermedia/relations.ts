import type { Naming } from './document.ts';

/** Link relations that IANA registers (RFC 8288 §4.2); all others are our own and have our prefix. */
const registered: ReadonlySet<string> = new Set(['self', 'first', 'prev', 'next', 'last', 'curies']);

export function isRegistered(rel: string): boolean {
  return registered.has(rel);
}

/** Returns the name of a relation in `rel`: our own with the prefix, which `templateOf` resolves. */
export function nameOf(rel: string, { relationPrefix }: Naming): string {
  return isRegistered(rel) ? rel : `${relationPrefix}:${rel}`;
}

/**
 * Returns the URI template (RFC 6570) of the documentation of our relations. `join` makes one flat string: a single
 * concatenated string among the values takes `JSON.stringify` off its fast path for the whole page, which then takes
 * 1.5 times as long.
 */
export function templateOf({ baseUrl }: Naming): string {
  return [baseUrl, '/rels/{rel}'].join('');
}

/**
 * Returns a relation for formats without prefixes: the name that IANA registers, or the address of its documentation.
 */
export function addressOfRelation(rel: string, naming: Naming): string {
  return isRegistered(rel) ? rel : templateOf(naming).split('{rel}').join(encodeURIComponent(rel));
}
