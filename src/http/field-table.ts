/**
 * Field tables: each property of a resource is described once, as data. This file derives the schemas of bodies, their parsing,
 * the types of rows, the properties of the Document, comparisons and changelog entries; `field-columns-sql.ts` derives the SQL.
 * Each derivation is made once per table and returns what requests use.
 */
import { Type, type TSchema, type TUnsafe } from 'typebox';
import type { Comparison } from '#core/listing.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Kind, Property, Value } from '#hypermedia/document.ts';
import { closedObject, flag, isSet, readOnly, type Flag, type Hints } from './inputs.ts';

/** A `flag` is a boolean that representations write as "1" or "0", a `list` a text[], `json` a jsonb, a `secret` a sealed bytea. */
type FieldKind =
  | 'text'
  | 'code'
  | 'url'
  | 'enumeration'
  | 'number'
  | 'boolean'
  | 'flag'
  | 'date'
  | 'secret'
  | 'list'
  | 'json';

/**
 * A property as a member of bodies, with the keywords of its schema: lengths of a `list` are those of its items. Without `isRequired`
 * it may be absent; with `isClearable` null and "" return it to its initial value.
 */
type Input = Omit<Hints, 'default' | 'choices'> & {
  description: string;
  isRequired?: true;
  isClearable?: true;
  /** Cannot be changed after the creation. */
  isFixed?: true;
  /** `schemasOf` is given the choices, because they depend on the configuration. Those that are numbers are stored as texts. */
  choices?: 'given';
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  maxProperties?: number;
  patternProperties?: object;
};

type Description = {
  isNullable?: true;
  /** The possible values; of a list those that forms offer. A function, if they depend on the configuration. */
  choices?: readonly string[] | (() => readonly string[]);
  /** The value if a POST or PUT has none; by default null, or false for a boolean. For `json` also its type. */
  initial?: string | boolean | readonly string[] | { readonly [name: string]: Value };
  /** The name of the column, if it differs from that of the property. The row has it in camel case. */
  column?: string;
  /** `sql`: an expression of the statement in place of a column. `code`: the row does not have it. */
  from?: 'sql' | 'code';
  /** Filters and orders use an expression of the statement in place of the column. */
  filterBy?: 'sql';
  /** Default: that of the kind. */
  comparison?: Comparison;
  /** Changelog entries contain it, as they do every property that requests can write. */
  isAudited?: true;
};

/** The code of an operation reads dates, whose texts may be invalid. */
export type Field = Description &
  ({ kind: 'date'; input?: never } | { kind: Exclude<FieldKind, 'date'>; input?: Input });

/** The properties by name: those without `input` may be in bodies, and are ignored there. In the order of representations and forms. */
export type Fields = Readonly<Record<string, Field>>;

type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name;
type Member<Name, F> = F extends { column: infer Column extends string } ? Camel<Column> : Camel<Name & string>;

type Plain = Record<'text' | 'code' | 'url' | 'enumeration', string> &
  Record<'boolean' | 'flag', boolean> & { number: number; date: Date; secret: Buffer; list: readonly string[] };
type Choice<F> = F extends { choices: readonly (infer One)[] | (() => readonly (infer One)[]) } ? One : string;
type Present<F extends Field> = F extends { kind: 'enumeration' }
  ? Choice<F>
  : F extends { kind: keyof Plain }
    ? Plain[F['kind']]
    : F['initial'];
type Null<F> = F extends { isNullable: true } ? null : never;

/** The type of a property in rows and settings. */
export type ValueOf<F extends Field> = Present<F> | Null<F>;

type Secret = { kind: 'secret' };
type Written = { input: object };

/** The members of a row that the table describes. */
export type RowOf<T extends Fields> = {
  [N in keyof T as T[N] extends { from: 'code' } ? never : Member<N, T[N]>]: ValueOf<T[N]>;
};

/** What requests can write, without secrets. */
export type SettingsOf<T extends Fields> = {
  [N in keyof T as T[N] extends Secret ? never : T[N] extends Written ? Member<N, T[N]> : never]: ValueOf<T[N]>;
};

type RequiredOf<T extends Fields> = {
  [N in keyof T as T[N] extends { input: { isRequired: true } } ? Member<N, T[N]> : never]: ValueOf<T[N]>;
};

/** Settings before a request has named the required ones. */
export type DraftOf<T extends Fields> = Omit<SettingsOf<T>, keyof RequiredOf<T>> & Partial<RequiredOf<T>>;

/** The settings that a body names, and its secrets. */
export type InputOf<T extends Fields> = Partial<SettingsOf<T>> & {
  [N in keyof T as T[N] extends Secret & Written ? Member<N, T[N]> : never]?: string | null;
};

type Cleared<F extends Field> = F extends { input: { isClearable: true } }
  ? F extends { kind: 'enumeration' }
    ? '' | null
    : null
  : never;
type Sent<F extends Field> = F extends { input: { choices: 'given' } }
  ? string | number | null
  : F extends { kind: 'boolean' | 'flag' }
    ? Flag
    : F extends { kind: 'list' }
      ? string[] | Cleared<F>
      : F extends { kind: 'secret' }
        ? string | Cleared<F>
        : Present<F> | Cleared<F>;

/** The body of a PATCH. */
export type PartOf<T extends Fields> = { [N in keyof T as T[N] extends Written ? N : never]?: Sent<T[N]> };
/** The body of a POST or PUT. */
export type WholeOf<T extends Fields> = PartOf<T> & {
  [N in keyof T as T[N] extends { input: { isRequired: true } } ? N : never]: Sent<T[N]>;
};

/** The values of a Document that are not those of the row: secrets, which rows have sealed, and what the row does not have. */
type Given<T extends Fields> = {
  [N in keyof T as T[N] extends { from: 'code' } | Secret ? N : never]: T[N] extends Secret
    ? string | null
    : ValueOf<T[N]>;
};

const COMPARISONS = {
  text: 'text',
  code: 'text',
  url: 'text',
  enumeration: 'text',
  number: 'number',
  boolean: 'boolean',
  flag: 'boolean',
  date: 'date',
  secret: 'none',
  list: 'none',
  json: 'none',
} as const satisfies Record<FieldKind, Comparison>;

export type ComparisonsOf<T extends Fields> = {
  readonly [N in keyof T]: T[N] extends { comparison: infer C extends Comparison }
    ? C
    : (typeof COMPARISONS)[T[N]['kind']];
};

/** Returns the name of a property in rows. */
export function memberOf(name: string, { column = name }: Field): string {
  return column.replaceAll(/_(.)/g, (_whole, letter: string) => letter.toUpperCase());
}

/** Returns how lists compare each property. */
export function comparisonsOf<const T extends Fields>(fields: T): ComparisonsOf<T> {
  const entries = Object.entries(fields).map(([name, { kind, comparison }]) => [name, comparison ?? COMPARISONS[kind]]);
  return Object.fromEntries(entries) as ComparisonsOf<T>;
}

type Choices = readonly (string | number)[];
type GivenChoices<T extends Fields> = {
  [N in keyof T as T[N] extends { input: { choices: 'given' } } ? N : never]: Choices;
};

/** Kinds that the type of a schema does not say. */
const HINTED: ReadonlySet<FieldKind> = new Set(['url', 'code', 'secret']);

function schemaOf({ kind, choices }: Field, input: Input, given: Choices | undefined): TSchema {
  const { isRequired: _, isClearable, isFixed: __, choices: ___, minLength, maxLength, ...keywords } = input;
  const length = { ...(minLength !== undefined && { minLength }), ...(maxLength !== undefined && { maxLength }) };
  const offered = given ?? (typeof choices === 'function' ? choices() : choices);
  const typed = (type: string) => ({ type: isClearable ? [type, 'null'] : type });
  if (kind === 'boolean' || kind === 'flag') return flag(keywords);
  if (kind === 'number') return Type.Unsafe({ ...typed('integer'), ...keywords });
  if (kind === 'json') return Type.Unsafe({ ...typed('object'), ...keywords });
  if (kind === 'list') {
    const items = { type: 'string', ...length, ...(offered && { choices: offered }) };
    return Type.Unsafe({ ...typed('array'), items, ...keywords });
  }
  if (offered !== undefined) return Type.Unsafe({ enum: isClearable ? [...offered, '', null] : offered, ...keywords });
  return Type.Unsafe({ ...typed('string'), ...length, ...(HINTED.has(kind) && { kind }), ...keywords });
}

/** Returns the default that the schema of POST and PUT shows. */
function shownDefault({ initial }: Field): { default?: string } {
  if (typeof initial === 'boolean') return { default: initial ? '1' : '0' };
  return typeof initial === 'string' ? { default: initial } : {};
}

/** Returns the schemas of POST and PUT (`whole`) and PATCH (`part`, which has no defaults: what is absent stays). */
export function schemasOf<const T extends Fields>(
  fields: T,
  given: GivenChoices<T>,
): { whole: TUnsafe<WholeOf<T>>; part: TUnsafe<PartOf<T>> } {
  const choices = new Map<string, Choices>(Object.entries(given));
  const membersOf = (isWhole: boolean) =>
    Object.entries(fields).map(([name, field]: [string, Field]): [string, TSchema] => {
      const { input } = field;
      if (input === undefined) return [name, readOnly()];
      const schema = schemaOf(field, input, choices.get(name));
      if (!isWhole) return [name, Type.Optional(schema)];
      return [name, input.isRequired ? schema : Type.Optional({ ...schema, ...shownDefault(field) })];
    });
  const objectOf = (isWhole: boolean) => closedObject(Object.fromEntries(membersOf(isWhole)));
  return { whole: Type.Unsafe<WholeOf<T>>(objectOf(true)), part: Type.Unsafe<PartOf<T>>(objectOf(false)) };
}

const initialOf = ({ kind, initial }: Field): unknown =>
  initial ?? (kind === 'boolean' || kind === 'flag' ? false : null);

/** Returns how the value of a member in a body becomes a setting. */
function readerOf(field: Field): (sent: unknown) => unknown {
  const initial = initialOf(field);
  if (field.kind === 'boolean' || field.kind === 'flag') return (sent) => isSet(sent as Flag);
  if (field.input?.choices === 'given') return (sent) => (typeof sent === 'number' ? String(sent) : sent || initial);
  if (field.input?.isClearable !== true) return (sent) => sent;
  return (sent) => (sent === null || sent === '' ? initial : sent);
}

type Entry = { name: string; member: string; field: Field; input: Input };

/** Returns the properties that requests can write. */
export function writtenOf(fields: Fields): Entry[] {
  return Object.entries(fields).flatMap(([name, field]) =>
    field.input === undefined ? [] : [{ name, member: memberOf(name, field), field, input: field.input }],
  );
}

/** Returns the function that reads the settings, and the secrets in cleartext, that a valid body names. */
export function parserOf<const T extends Fields>(fields: T): (body: PartOf<T>) => InputOf<T> {
  const readers = writtenOf(fields).map(({ name, member, field }) => ({ name, member, read: readerOf(field) }));
  return (body) => {
    const input: Record<string, unknown> = {};
    for (const { name, member, read } of readers) {
      const sent = (body as Readonly<Record<string, unknown>>)[name];
      if (sent !== undefined) input[member] = read(sent);
    }
    return input as InputOf<T>;
  };
}

const settingsIn = (fields: Fields): Entry[] => writtenOf(fields).filter(({ field }) => field.kind !== 'secret');

/** Returns the settings of a POST or PUT that names none. */
export function defaultsOf<const T extends Fields>(fields: T): DraftOf<T> {
  const optional = settingsIn(fields).filter(({ input }) => input.isRequired !== true);
  return Object.fromEntries(optional.map(({ member, field }) => [member, initialOf(field)])) as DraftOf<T>;
}

/** Returns the function that picks the settings of a row. */
export function settingsOf<const T extends Fields>(fields: T): (row: SettingsOf<T>) => SettingsOf<T> {
  const members = settingsIn(fields).map(({ member }) => member);
  return (row) => {
    const values = row as Readonly<Record<string, unknown>>;
    return Object.fromEntries(members.map((member) => [member, values[member]])) as SettingsOf<T>;
  };
}

type Writer = (value: unknown, timeZone: string) => Value;

/** Returns how representations write the value of a row; undefined if as it is. */
function writerOf({ kind }: Field): Writer | undefined {
  if (kind === 'flag') return (value) => (value === true ? '1' : '0');
  if (kind === 'date') return (value, timeZone) => (value === null ? null : formatDate(value as Date, timeZone));
  return undefined;
}

const KINDS: Partial<Record<FieldKind, Kind>> = { flag: 'boolean', list: 'json' };

/** Returns the function that makes the properties of the Document of a row, with dates in the time zone. */
export function propertiesOf<const T extends Fields>(
  fields: T,
): (row: RowOf<T>, timeZone: string, given: Given<T>) => Property[] {
  const entries = Object.entries(fields).map(([name, field]: [string, Field]) => ({
    name,
    member: memberOf(name, field),
    kind: KINDS[field.kind] ?? (field.kind as Kind),
    isNullable: field.isNullable === true,
    isGiven: field.from === 'code' || field.kind === 'secret',
    write: writerOf(field),
  }));
  return (row, timeZone, given) => {
    const values = row as Readonly<Record<string, unknown>>;
    const others = given as Readonly<Record<string, unknown>>;
    return entries.map(({ name, member, kind, isNullable, isGiven, write }): Property => {
      const read = isGiven ? others[name] : values[member];
      const value = write === undefined ? (read as Value) : write(read, timeZone);
      return isNullable ? { name, value, kind, mayBeNull: true } : { name, value, kind };
    });
  };
}

type Audited<F> = F extends Written | { isAudited: true } ? true : false;
/** What changelog entries say in place of a value: required for audited secrets. */
type Masked<T extends Fields> = { readonly [N in keyof T]?: Value } & {
  readonly [
    N in keyof T as [T[N] extends Secret ? true : false, Audited<T[N]>] extends [true, true] ? N : never
  ]: Value;
};

/** Returns the function that makes the facts of a changelog entry: what requests can write, and the properties with `isAudited`. */
export function factsOf<const T extends Fields>(
  fields: T,
): (
  row: { [N in keyof T as Audited<T[N]> extends true ? Member<N, T[N]> : never]: ValueOf<T[N]> },
  timeZone: string,
  masked: Masked<T>,
) => { readonly [name: string]: Value } {
  const audited = Object.entries(fields)
    .filter(([, { input, isAudited }]: [string, Field]) => input !== undefined || isAudited)
    .map(([name, field]) => ({ name, member: memberOf(name, field), write: writerOf(field) }));
  return (row, timeZone, masked) => {
    const values = row as Readonly<Record<string, unknown>>;
    const others = masked as Readonly<Record<string, Value | undefined>>;
    return Object.fromEntries(
      audited.map(({ name, member, write }) => {
        if (name in others) return [name, others[name] ?? null];
        const value = values[member] as Value;
        return [name, write === undefined ? value : write(value, timeZone)];
      }),
    );
  };
}
