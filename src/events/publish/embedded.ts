/**
 * Validates what a published resource embeds under `_embedded`: relations with copies of other resources, which `zoom` selects.
 */
import type { Value } from '#hypermedia/document.ts';

export type JsonObject = { readonly [name: string]: Value };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Serializers write "nothing embedded" in several forms: some languages encode an empty map as an empty list. */
const isAbsent = (value: Value | undefined): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0);

/** Returns the relation without its prefix: `svc:items` and `items` are the same relation. */
const relationOf = (key: string): string => key.slice(key.lastIndexOf(':') + 1);

/** Called with the path and the message of each fault. */
type Report = (field: string, message: string) => void;

/**
 * Reports an `_embedded` that contains no relations, and a relation that occurs under two names, of which readers would find
 * only one. `at` is the path of `copy`.
 */
export const validateEmbedded = (copy: JsonObject, at: string, report: Report): void => {
  const all = copy['_embedded'];
  if (isAbsent(all)) return;
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
      if (isObject(one)) validateEmbedded(one, Array.isArray(value) ? `${field}.${index}` : field, report);
  }
};
