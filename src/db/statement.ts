/** SQL templates: composed of fragments, with parameters, executed when they are awaited. */
import { castOf, encode, Json } from './values.ts';

/** The rows of a result. `count`: the rows that a statement returned or changed. */
export type Rows<T extends readonly unknown[]> = T & { readonly count: number };

/** The text of a statement, its parameters, and the name under which a connection prepares it. `origin`: where it is written. */
export type Command = {
  text: string;
  values: (string | Buffer | null)[];
  name: string | undefined;
  origin: Origin | undefined;
};

/** The stack of the first use of a template, read only for errors: theirs begins at the socket. */
type Origin = { readonly stack: string };
const origins = new WeakMap<readonly string[], Origin>();

/** A part of a template. */
// oxlint-disable-next-line typescript/no-explicit-any -- a fragment has no rows
export type Fragment = Statement<any> | Names;
type Parameter = string | number | bigint | boolean | Date | Uint8Array | null | Json | readonly unknown[];
type Execute = (command: () => Command) => Promise<Rows<readonly unknown[]>>;

/** One or several quoted names. */
class Names {
  readonly text: string;

  constructor(names: string | readonly string[]) {
    this.text = [names]
      .flat()
      .map((name) => `"${name.replaceAll('"', '""')}"`)
      .join(', ');
  }
}

/** Prepared statements of texts that are composed of fragments, whose number callers determine by filters and orders. */
const MAX_COMPOSED = 1_000;
/** The names of texts, for all connections. Those of templates without fragments are finite. */
const names = new Map<string, string>();
let composed = 0;

/** Returns the name of a text; undefined if too many have one, then the statement is not prepared. */
function nameOf(text: string, isComposed: boolean): string | undefined {
  const known = names.get(text);
  if (known !== undefined || (isComposed && composed >= MAX_COMPOSED)) return known;
  if (isComposed) composed += 1;
  const name = `s${names.size}`;
  names.set(text, name);
  return name;
}

/** Writes templates into one text and one list of parameters. */
class Composition {
  text = '';
  readonly values: Command['values'] = [];
  isComposed = false;
  /** Whether the text contains names or other text that may be different each time. */
  isVariable = false;

  add({ strings, values, isVariable }: Pick<Statement<never>, 'strings' | 'values' | 'isVariable'>): void {
    if (isVariable) this.isVariable = true;
    this.text += strings[0] ?? '';
    for (let at = 0; at < values.length; at += 1) {
      const value = values[at];
      if (value instanceof Statement) {
        this.isComposed = true;
        this.add(value);
      } else if (value instanceof Names) {
        this.isVariable = true;
        this.text += value.text;
      } else {
        this.text += `$${this.values.push(encode(value))}${castOf(value)}`;
      }
      this.text += strings[at + 1] ?? '';
    }
  }
}

/** A statement, which is executed once when it is first awaited, or a fragment of another one, which is not executed. */
class Statement<T extends readonly unknown[]> implements Promise<Rows<T>> {
  readonly [Symbol.toStringTag] = 'Statement';
  readonly strings: readonly string[];
  readonly values: readonly unknown[];
  readonly isVariable: boolean;
  readonly #execute: Execute;
  #rows: Promise<Rows<T>> | undefined;

  constructor(execute: Execute, strings: readonly string[], values: readonly unknown[], isVariable: boolean) {
    this.#execute = execute;
    this.strings = strings;
    this.values = values;
    this.isVariable = isVariable;
  }

  /** Executes the statement without waiting for it. */
  execute(): this {
    this.#rows ??= this.#execute(() => this.#command()) as Promise<Rows<T>>;
    return this;
  }

  // oxlint-disable-next-line unicorn/no-thenable -- it is a promise
  then<A = Rows<T>, B = never>(
    onFulfilled?: ((rows: Rows<T>) => A | PromiseLike<A>) | null,
    onRejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#rows ??= this.#execute(() => this.#command()) as Promise<Rows<T>>;
    return this.#rows.then(onFulfilled, onRejected);
  }

  catch<B = never>(onRejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Rows<T> | B> {
    return this.then(undefined, onRejected);
  }

  finally(onEnd?: (() => void) | null): Promise<Rows<T>> {
    return this.then((rows) => rows).finally(onEnd);
  }

  #command(): Command {
    const composition = new Composition();
    composition.add(this);
    const { text, values, isComposed, isVariable } = composition;
    return { text, values, name: isVariable ? undefined : nameOf(text, isComposed), origin: origins.get(this.strings) };
  }
}

/** Makes statements and their parts. */
export interface Queryable {
  /** Returns quoted names. */
  (names: string | (readonly string[] & { raw?: never })): Names;
  <T extends readonly object[] = Record<string, unknown>[]>(
    strings: TemplateStringsArray,
    ...values: readonly (Parameter | Fragment)[]
  ): Statement<T>;
  /** Returns a statement or fragment of this text; several statements are separated by semicolons. */
  unsafe<T extends readonly object[] = Record<string, unknown>[]>(text: string): Statement<T>;
  /** Returns a JSON value as a parameter of type jsonb. */
  json(value: unknown): Json;
}

/** Returns a template tag whose statements are executed by `execute`. */
export function createTag(execute: Execute): Queryable {
  const tag = (first: TemplateStringsArray | string | readonly string[], ...values: readonly unknown[]) => {
    if (typeof first !== 'object' || !('raw' in first)) return new Names(first);
    if (!origins.has(first)) {
      const origin = { stack: '' };
      Error.captureStackTrace(origin, tag);
      origins.set(first, origin);
    }
    return new Statement(execute, first, values, false);
  };
  return Object.assign(tag, {
    unsafe: (text: string) => new Statement(execute, [text], [], true),
    json: (value: unknown) => new Json(value),
  }) as Queryable;
}
