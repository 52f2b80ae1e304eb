/** Arbitrary resources as platforms publish them, with embedded copies of other resources. */
import * as fc from 'fast-check';
import type { Relations } from '#hypermedia/list-query.ts';
import { valueWith } from './any-document.ts';
import { anyText } from './any-text.ts';

/** Names that publishers use, names with a meaning in JavaScript, and any text that JSON may contain. */
const names = fc.oneof(
  fc.constantFrom('total_order', 'currency_code', 'date_created', 'constructor', 'toString', 'is_active', 'url', ''),
  anyText({ maxLength: 6 }).filter((text) => !text.includes('\0')),
);
function isSound(value: unknown): boolean {
  const text = JSON.stringify(value);
  return text.isWellFormed() && !/\\u0000|\\ud[89a-f]|"__proto__":|"_(?:links|embedded)":/i.test(text);
}
const objects = fc.dictionary(names, valueWith(names), { maxKeys: 6 }).filter(isSound);

type Resource = Record<string, unknown>;

/** A resource with one or several embedded copies under some relations, each with its own embedded copies. */
export function embedding(relations: Relations): fc.Arbitrary<Resource> {
  const copies = Object.entries(relations).map(([rel, below]) => {
    const one = embedding(below);
    const name = fc.constantFrom(rel, `svc:${rel}`, `fx:${rel}`);
    const value = fc.oneof(one, fc.array(one, { maxLength: 3 }), fc.constantFrom(null, 7, 'none'));
    return fc.option(fc.tuple(name, value));
  });
  return fc.tuple(objects, ...copies).map(([own, ...found]) => {
    const embedded = Object.fromEntries(found.filter((entry) => entry !== null) as [string, unknown][]);
    return Object.keys(embedded).length === 0 ? own : Object.assign(own, { _embedded: embedded });
  });
}

/** Returns all values of `zoom`. */
export const zoomsOf = (relations: Relations, above = ''): string[] =>
  Object.entries(relations).flatMap(([rel, below]) => [above + rel].concat(zoomsOf(below, `${above}${rel}:`)));
