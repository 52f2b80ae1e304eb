/** Flattens nested objects: the name of a nested member is its path. Pure. */
import { isObject } from '#catalog/document.ts';
import type { Document, Value } from '#hypermedia/document.ts';

/** Separates the names of a path: `customer_email`, or `customer-email`, where `_` within names becomes `-` too. */
export type Separator = '_' | '-';

/**
 * Maximum length of a path prefix: a name of 100 KB around thousands of members would be repeated thousands of times.
 */
const PATH_CHARACTERS = 100;

/** The members of a document: a list, because a property and a relation may have the same name. */
class Members {
  readonly list: readonly Member[];

  constructor(list: readonly Member[]) {
    this.list = list;
  }
}
type Node = Value | Members | readonly Members[];
type Member = readonly [name: string, node: Node];

/** Returns the properties, then the embedded documents, single or as lists. */
export function membersOf({ properties, embedded }: Document): Members {
  return new Members([
    ...properties.map(({ name, value }): Member => [name, value]),
    ...embedded.map(({ rel, documents, single }): Member => {
      const found = documents.map(membersOf);
      return [rel, single === true ? (found[0] ?? null) : found];
    }),
  ]);
}

function listOf(node: Node): readonly Member[] | undefined {
  if (node instanceof Members) return node.list;
  return isObject(node) ? Object.entries(node) : undefined;
}

/**
 * JSON texts of members by name, in insertion order: an object would put integer-like names first. A duplicate name is
 * numbered, `customer_email_2`; the less nested member comes first and keeps the plain name.
 */
export class Flat {
  readonly #texts = new Map<string, string>();
  /** Next number per name, so that thousands of duplicates do not each count from the start. */
  readonly #numbers = new Map<string, number>();
  readonly #separator: Separator;

  constructor(separator: Separator) {
    this.#separator = separator;
  }

  add(name: string, text: string): void {
    const key = this.#separator === '_' ? name : name.replaceAll('_', this.#separator);
    this.#texts.set(this.#texts.has(key) ? this.#numberedName(key) : key, text);
  }

  /** Breadth first. An object without members adds nothing. */
  addAll(members: Members): void {
    let level: { path: string; list: readonly Member[] }[] = [{ path: '', list: members.list }];
    while (level.length > 0) {
      const below: typeof level = [];
      for (const { path, list } of level) {
        for (const [name, node] of list) {
          const whole = path === '' ? name : path + this.#separator + name;
          const nested = listOf(node);
          if (nested === undefined) this.add(whole, this.#toJson(node));
          else below.push({ path: whole.slice(0, PATH_CHARACTERS), list: nested });
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

  /** Objects in a list are flattened individually. The nesting of lists is limited when events are published. */
  #toJson(node: Node): string {
    if (Array.isArray(node)) return `[${(node as readonly Node[]).map((item) => this.#toJson(item)).join(',')}]`;
    const list = listOf(node);
    if (list === undefined) return JSON.stringify(node);
    const flat = new Flat(this.#separator);
    flat.addAll(new Members(list));
    return flat.text();
  }
}
