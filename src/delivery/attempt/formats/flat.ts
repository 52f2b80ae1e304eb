/** An object without depth: what stands members of another is named after the way to it. Pure. */
import { isObject } from '#catalog/document.ts';
import type { Document, Value } from '#hypermedia/document.ts';

/** Between the names on the way: `customer_email`, or `customer-email`, where each `_` of a name is `-` too. */
export type Separator = '_' | '-';

/** Of the way at most so many characters: a name of 100 KB around thousands of members would be written thousands of times. */
const PATH_CHARACTERS = 100;

/** The members of a document: a property and a relation of it may have one name. */
class Members {
  readonly list: readonly Member[];

  constructor(list: readonly Member[]) {
    this.list = list;
  }
}
type Node = Value | Members | readonly Members[];
type Member = readonly [name: string, node: Node];

/** The properties first, then what is embedded: one thing, or a list. */
export const membersOf = ({ properties, embedded }: Document): Members =>
  new Members([
    ...properties.map(({ name, value }): Member => [name, value]),
    ...embedded.map(({ rel, documents, single }): Member => {
      const found = documents.map(membersOf);
      return [rel, single === true ? (found[0] ?? null) : found];
    }),
  ]);

const listOf = (node: Node): readonly Member[] | undefined => {
  if (node instanceof Members) return node.list;
  return isObject(node as Value) ? Object.entries(node as { readonly [name: string]: Value }) : undefined;
};

/**
 * Members by name, each with its JSON text, in the order in which they are written: an object would put names that are whole
 * numbers first. Of two with one name the later is numbered, `customer_email_2`: nothing is lost, and what stands less
 * deep, which comes first, keeps the name that the receiver knows it by.
 */
export class Flat {
  readonly #texts = new Map<string, string>();
  /** Where to go on counting, so that thousands with one name are not counted from the start each. */
  readonly #numbers = new Map<string, number>();
  readonly #separator: Separator;

  constructor(separator: Separator) {
    this.#separator = separator;
  }

  add(name: string, text: string): void {
    const key = this.#separator === '_' ? name : name.replaceAll('_', this.#separator);
    this.#texts.set(this.#texts.has(key) ? this.#numberedName(key) : key, text);
  }

  /** Level by level. An object without members is no member either. */
  addAll(members: Members): void {
    let level: { path: string; list: readonly Member[] }[] = [{ path: '', list: members.list }];
    while (level.length > 0) {
      const below: typeof level = [];
      for (const { path, list } of level) {
        for (const [name, node] of list) {
          const whole = path === '' ? name : path + this.#separator + name;
          const members = listOf(node);
          if (members === undefined) this.add(whole, this.#toJson(node));
          else below.push({ path: whole.slice(0, PATH_CHARACTERS), list: members });
        }
      }
      level = below;
    }
  }

  text(): string {
    return `{${[...this.#texts].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
  }

  #numberedName(name: string): string {
    let number = this.#numbers.get(name) ?? 2;
    while (this.#texts.has(`${name}${this.#separator}${number}`)) number += 1;
    this.#numbers.set(name, number + 1);
    return `${name}${this.#separator}${number}`;
  }

  /** Objects in a list are flat each by itself. How deep lists stand in lists is limited where events are published. */
  #toJson(node: Node): string {
    if (Array.isArray(node)) return `[${(node as readonly Node[]).map((item) => this.#toJson(item)).join(',')}]`;
    const list = listOf(node);
    if (list === undefined) return JSON.stringify(node);
    const flat = new Flat(this.#separator);
    flat.addAll(new Members(list));
    return flat.text();
  }
}
