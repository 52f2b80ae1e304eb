/**
 * SQL templates: composed of fragments, with parameters, executed when they are awaited. Parameters and results have PostgreSQL's text
 * format. The defaults of `pg` differ: int8 is a text, a date is midnight in the zone of the process, and an array of 500 numbers takes 0.1
 * ms instead of 0.05 (a batch of events has fifteen).
 */

/** The rows of a result. `count`: the rows that a statement returned or changed. */
export type Rows<T extends readonly unknown[]> = T & { readonly count: number };

/** Returns the row of a statement that always has one. */
export async function oneOf<Row>(rows: PromiseLike<readonly Row[]>): Promise<Row> {
  const [row] = await rows;
  if (row === undefined) throw new Error('The database returned no row');
  return row;
}

/** Returns the first row of a statement; undefined if it has none. */
export async function firstOf<Row>(rows: PromiseLike<readonly Row[]>): Promise<Row | undefined> {
  return (await rows)[0];
}

/** Returns whether a statement has returned or changed a row. */
export async function hasRows(rows: PromiseLike<{ readonly count: number }>): Promise<boolean> {
  return (await rows).count > 0;
}

/** Returns the number that a statement selects as `total`. */
export async function totalOf(rows: PromiseLike<readonly { total: number }[]>): Promise<number> {
  return (await oneOf(rows)).total;
}

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
/** PostgreSQL keeps the plan of a prepared statement in each connection: some 100 times the length of its text. */
const NAMED_CHARACTERS_MAX = 16_384;
/** The names of texts, for all connections. Those of templates without fragments are finite. */
const names = new Map<string, string>();
let composed = 0;

/** Returns the name of a text; undefined if too many have one, then the statement is not prepared. */
function nameOf(text: string, isComposed: boolean): string | undefined {
  const known = names.get(text);
  const isLimited = composed >= MAX_COMPOSED || text.length > NAMED_CHARACTERS_MAX;
  if (known !== undefined || (isComposed && isLimited)) return known;
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

/** A JSON value as a parameter. */
export class Json {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

const quoted = (text: string): string => `"${text.replace(/[\\"]/g, '\\$&')}"`;

const isPlainObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !(value instanceof Date) && !(value instanceof Uint8Array);

/** Returns one element of an array literal; elements that are no text need no quotes. */
function elementOf(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'string') return quoted(value);
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return `"\\\\x${Buffer.from(value).toString('hex')}"`;
  // oxlint-disable-next-line typescript/no-base-to-string -- a number or boolean
  return String(value);
}

/** Returns the literal of an array of one dimension. Elements are JSON values if one of them is an object or an array. */
function arrayText(values: readonly unknown[]): string {
  if (!values.some(isPlainObject)) return `{${values.map(elementOf).join(',')}}`;
  return `{${values.map((value) => (value === null ? 'NULL' : quoted(JSON.stringify(value)))).join(',')}}`;
}

/** Returns the parameter as `pg` sends it; throws for undefined and for objects that are no `Json`. */
function encode(value: unknown): string | Buffer | null {
  if (value === null || typeof value === 'string') return value;
  if (Array.isArray(value)) return arrayText(value);
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof Json) return value.value === null ? null : JSON.stringify(value.value);
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  throw new TypeError(`A parameter of a statement is ${typeof value}`);
}

/**
 * Returns the cast that declares the type of a parameter; without it `$1 - interval '1 day'` would be ambiguous. The server
 * infers the type of texts, numbers and arrays.
 */
function castOf(value: unknown): string {
  if (typeof value === 'boolean') return '::boolean';
  if (typeof value === 'bigint') return '::bigint';
  if (typeof value !== 'object' || value === null) return '';
  if (value instanceof Date) return '::timestamptz';
  if (value instanceof Uint8Array) return '::bytea';
  return value instanceof Json ? '::jsonb' : '';
}

type Decode = (text: string) => unknown;

/** One element: a quoted text with its escapes, or everything up to the next comma. One dimension only. */
const ELEMENT = /"((?:[^"\\]|\\.)*)"|([^,{}]+)/gs;

const arrayOf =
  (decode: Decode): Decode =>
  (text) =>
    Array.from(text.matchAll(ELEMENT), ([, inQuotes, bare]) => {
      if (inQuotes !== undefined) return decode(inQuotes.replace(/\\(.)/gs, '$1'));
      return bare === undefined || bare === 'NULL' ? null : decode(bare);
    });

const asText: Decode = (text) => text;
const asNumber: Decode = Number;
const asBoolean: Decode = (text) => text === 't';
const asTime: Decode = (text) => new Date(text);
const asBytes: Decode = (text) => Buffer.from(text.slice(2), 'hex');
const asJson: Decode = (text): unknown => JSON.parse(text);

/**
 * Object ids of the types that are not read as text, fixed in PostgreSQL's `pg_type.dat`: of the type, and of its array. An int8
 * is a number: ids and counts are safe integers; a larger value would lose its last digits.
 */
const TYPES: readonly (readonly [type: number | undefined, array: number, Decode])[] = [
  [16, 1000, asBoolean],
  [17, 1001, asBytes],
  [20, 1016, asNumber],
  [21, 1005, asNumber],
  [23, 1007, asNumber],
  [26, 1028, asNumber],
  [700, 1021, asNumber],
  [701, 1022, asNumber],
  [114, 199, asJson],
  [3802, 3807, asJson],
  [1082, 1182, asTime],
  [1114, 1115, asTime],
  [1184, 1185, asTime],
  [undefined, 1003, asText], // name
  [undefined, 1009, asText], // text
  [undefined, 1015, asText], // varchar
  [undefined, 1231, asText], // numeric
  [undefined, 2951, asText], // uuid
];

const DECODERS: ReadonlyMap<number | undefined, Decode> = new Map(
  TYPES.flatMap(([type, array, decode]) => [[type, decode] as const, [array, arrayOf(decode)] as const]),
);

/** Returns the decoder of a type by its object id; numeric and all types without a decoder are texts. */
export function decoderOf(type: number): Decode {
  return DECODERS.get(type) ?? asText;
}
