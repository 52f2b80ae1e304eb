/** What a published resource embeds: relations and the copies under them, which can be zoomed into. */
import type { Value } from '#hypermedia/document.ts';

export type JsonObject = { readonly [name: string]: Value };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** As serializers write that nothing is embedded: an empty map is an empty list in some languages. */
const isNothing = (value: Value | undefined): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0);

/** `svc:items` and `items` are one relation. */
const relationOf = (key: string): string => key.slice(key.lastIndexOf(':') + 1);

/** Told of the place of a fault and what is wrong there. */
type Report = (field: string, message: string) => void;

/**
 * Finds what nobody could ever read: an `_embedded` that holds no relations, and a relation that stands there under two names,
 * of which readers find one. `at` is the place of `copy`.
 */
export const judgeEmbedded = (copy: JsonObject, at: string, report: Report): void => {
  const all = copy['_embedded'];
  if (isNothing(all)) return;
  const place = `${at}._embedded`;
  if (!isObject(all)) {
    report(place, `${place} must be an object of relations, each with a resource or a list of them`);
    return;
  }
  const seen = new Set<string>();
  for (const [key, value] of Object.entries(all)) {
    const [relation, field] = [relationOf(key), `${place}.${key}`];
    if (seen.has(relation)) report(field, `${field}: ${relation} is embedded twice, with and without a prefix`);
    seen.add(relation);
    const copies = Array.isArray(value) ? (value as readonly Value[]) : [value];
    for (const [index, one] of copies.entries())
      if (isObject(one)) judgeEmbedded(one, Array.isArray(value) ? `${field}.${index}` : field, report);
  }
};
