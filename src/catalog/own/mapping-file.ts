/**
 * The operator's file (`MAPPING_FILE`) that says where resources in the platform's own shape have what Halcyon must understand:
 * docs/platforms.md. Resources are stored and delivered as published; only what is derived from them reads the mapped members.
 */
import { Type, type Static } from 'typebox';
import { readAmount, type Decimal } from '#core/exact-number.ts';
import { stepsOf } from '#core/listing.ts';
import type { Fault } from '#core/problem.ts';
import { closedObject } from '#http/inputs.ts';
import { parseDate } from '#hypermedia/date.ts';
import { isScalar, type Value } from '#hypermedia/document.ts';
import { builtInTypes, isInternal, mapResources, type Mapped, type Mapping } from '../catalog.ts';
import { isObject, memberAt, type JsonObject } from '../resource-document.ts';
import { readFileOf, refuseFile, type DeclarationFile } from './events-file.ts';

const POINTER_LENGTH_MAX = 200;
const POINTERS_MAX = 5;
const VALUES_MAX = 50;

const pointer = Type.String({ pattern: '^(?:/(?:[^~/]|~[01])+)+$', maxLength: POINTER_LENGTH_MAX });
const pointers = Type.Union([pointer, Type.Array(pointer, { minItems: 1, maxItems: POINTERS_MAX })]);
const values = Type.Record(Type.String(), Type.Union([Type.String(), Type.Boolean(), Type.Null()]), {
  maxProperties: VALUES_MAX,
});

/** `at`: the first of the members that is set counts. `values`: what its texts mean. */
const word = Type.Union([pointer, closedObject({ at: pointers, values: Type.Optional(values) })]);
/** A member that has one of these texts, or with a pointer alone: that is set and not false. */
const condition = closedObject({ at: pointer, is: Type.Array(Type.String(), { maxItems: VALUES_MAX }) });
const mark = Type.Union([pointer, condition]);
/** `zone`: of dates without an offset, else that of the store. `if`: the date counts only while a member has one of these texts. */
const date = Type.Union([
  pointer,
  closedObject({
    at: pointers,
    as: Type.Optional(Type.Enum(['unix'])),
    zone: Type.Optional(Type.String({ minLength: 1 })),
    if: Type.Optional(condition),
  }),
]);
/** `each`: a list of which each element has `at` and `times`. */
const amount = Type.Union([
  pointer,
  closedObject({
    at: pointer,
    as: Type.Optional(Type.Enum(['minor_units'])),
    each: Type.Optional(pointer),
    times: Type.Optional(pointer),
  }),
]);
const frequency = closedObject({ at: pointers, values: Type.Optional(values), count: Type.Optional(pointer) });

const shared = {
  id: Type.Optional(pointer),
  date_modified: Type.Optional(date),
  deleted: Type.Optional(mark),
  currency_code: Type.Optional(word),
};
const Subscription = closedObject({
  ...shared,
  is_active: Type.Optional(word),
  start_date: Type.Optional(date),
  end_date: Type.Optional(date),
  next_transaction_date: Type.Optional(date),
  first_failed_transaction_date: Type.Optional(date),
  error_message: Type.Optional(word),
  frequency: Type.Optional(frequency),
  amount: Type.Optional(amount),
});
const Other = closedObject(shared);

const mappable = builtInTypes.filter((type) => !isInternal(type) && type !== 'subscription_event');
const File = closedObject({
  resources: Type.Object(
    Object.fromEntries(mappable.map((type) => [type, Type.Optional(type === 'subscription' ? Subscription : Other)])),
    { additionalProperties: false, minProperties: 1 },
  ),
});

type Word = Static<typeof word>;
type DateSource = Static<typeof date>;
type Amount = Static<typeof amount>;
type Description = Static<typeof Subscription>;

/** A resource that is read, and what was found that the file does not map. */
type Reading = { resource: JsonObject; warnings: Fault[] };

const isSet = (value: Value | undefined): value is Value => value !== undefined && value !== null && value !== '';

const valueAt = (resource: JsonObject, at: string | readonly string[]): Value | undefined =>
  [at]
    .flat()
    .map((one) => memberAt(resource, stepsOf(one)))
    .find(isSet);

const textOf = (value: Value | undefined): string =>
  value !== undefined && value !== null && isScalar(value) ? String(value) : '';

function readWord(source: Word, { resource, warnings }: Reading, name: string): Value | undefined {
  if (typeof source === 'string') return valueAt(resource, source);
  const value = valueAt(resource, source.at);
  if (source.values === undefined || value === undefined) return value;
  const text = textOf(value);
  if (Object.hasOwn(source.values, text)) return source.values[text];
  const field = `resource${[source.at].flat()[0]?.replaceAll('/', '.') ?? ''}`;
  const message = `${field} is "${text.slice(0, 100)}", which MAPPING_FILE does not map: ${name} counts as unset`;
  warnings.push({ code: 'unknown_value', message, field });
  return undefined;
}

function isMarked(source: Static<typeof mark>, resource: JsonObject): boolean {
  if (typeof source !== 'string') return source.is.includes(textOf(valueAt(resource, source.at)));
  const value = valueAt(resource, source);
  return isSet(value) && !['false', '0'].includes(textOf(value));
}

const MS_PER_SECOND = 1_000;
const UNIX = /^-?\d{1,13}(?:\.\d+)?$/;
/** The latest date that JavaScript has. */
const LATEST_MS = 8.64e15;
/** `2026-11-20 16:05:03`, as SQL databases write it. */
const WITH_BLANK = /^(\d{4}-\d\d-\d\d) (?=\d\d:)/;

function readDate(source: DateSource, { resource }: Reading): Value | undefined {
  if (typeof source === 'string') return valueAt(resource, source);
  if (source.if !== undefined && !isMarked(source.if, resource)) return undefined;
  const value = valueAt(resource, source.at);
  if (source.as === 'unix') {
    const ms = UNIX.test(textOf(value)) ? Number(textOf(value)) * MS_PER_SECOND : Number.NaN;
    return Math.abs(ms) <= LATEST_MS ? new Date(ms).toISOString() : undefined;
  }
  if (typeof value !== 'string') return value;
  const written = value.replace(WITH_BLANK, '$1T');
  return (source.zone && parseDate(written, source.zone)?.toISOString()) || written;
}

/** Decimal places of the amounts of a currency: JPY has none (ISO 4217). */
const MINOR_PLACES = new Map<string, number>();

function minorPlacesOf(currency: string): number {
  return MINOR_PLACES.getOrInsertComputed(currency, () => {
    const format = new Intl.NumberFormat('en', { style: 'currency', currency });
    return format.resolvedOptions().maximumFractionDigits ?? 0;
  });
}

function textOfDecimal({ digits, places }: Decimal): string {
  const sign = digits < 0n ? '-' : '';
  const text = String(digits < 0n ? -digits : digits).padStart(places + 1, '0');
  return sign + (places === 0 ? text : `${text.slice(0, -places)}.${text.slice(-places)}`);
}

const CURRENCY = /^[A-Z]{3}$/;

/** Returns the amount in the unit of its currency; the value itself if it is no number, or the currency is unknown. */
function inMajorUnits(value: Value | undefined, currency: string): Value | undefined {
  const decimal = readAmount(value);
  if (decimal === undefined || !CURRENCY.test(currency)) return value;
  return textOfDecimal({ digits: decimal.digits, places: decimal.places + minorPlacesOf(currency) });
}

/** Returns the template of a subscription with these amounts as its items. */
function templateOf(source: Amount, { resource }: Reading, currency: Value | undefined): JsonObject {
  const { at, as, each, times } = typeof source === 'string' ? { at: source } : source;
  const listed = each === undefined ? resource : valueAt(resource, each);
  const elements = (Array.isArray(listed) ? (listed as readonly Value[]) : [listed]).filter(isObject);
  const code = textOf(currency).toUpperCase();
  const items = elements.map((element): JsonObject => {
    const found = valueAt(element, at);
    const price = (as === 'minor_units' ? inMajorUnits(found, code) : found) ?? null;
    return times === undefined ? { price } : { price, quantity: valueAt(element, times) ?? 1 };
  });
  return { currency_code: currency ?? null, _embedded: { items } };
}

function frequencyOf(source: Static<typeof frequency>, reading: Reading): Value | undefined {
  const unit = readWord(source, reading, 'frequency');
  if (source.count === undefined || typeof unit !== 'string') return unit;
  const count = valueAt(reading.resource, source.count);
  return `${count === undefined ? 1 : textOf(count)}${unit}`;
}

const WORDS = ['is_active', 'currency_code', 'error_message'] as const;
const DATES = [
  'date_modified',
  'start_date',
  'end_date',
  'next_transaction_date',
  'first_failed_transaction_date',
] as const;

/** Returns the pointers of a member into the resource; those into the elements of `each` are not. */
function pointersOf(source: Description[keyof Description]): readonly string[] {
  if (source === undefined) return [];
  if (typeof source === 'string') return [source];
  if ('each' in source && source.each !== undefined) return [source.each];
  const others = [
    'count' in source ? source.count : undefined,
    'times' in source ? source.times : undefined,
    'if' in source ? source.if?.at : undefined,
  ];
  return [source.at, ...others].flat().filter((one) => one !== undefined);
}

/**
 * Returns the mapping of a description. Members of the resource that a pointer leads into are left out of the result: their changes are
 * those of the mapped members.
 */
function mappingOf(description: Description): Mapping {
  const pointersInto = Object.values(description).flatMap(pointersOf);
  const read = new Set(pointersInto.map((one) => stepsOf(one)[0]?.name ?? ''));
  for (const name of ['id', '_embedded', '_links']) read.delete(name);
  return (resource): Mapped => {
    const reading: Reading = { resource, warnings: [] };
    const others = Object.entries(resource).filter(([name]) => !read.has(name));
    const members: Record<string, Value> = {};
    const set = (name: string, value: Value | undefined): void => {
      if (value !== undefined) members[name] = value;
    };
    if (description.id !== undefined) set('id', valueAt(resource, description.id));
    for (const name of WORDS)
      if (description[name] !== undefined) set(name, readWord(description[name], reading, name));
    for (const name of DATES) if (description[name] !== undefined) set(name, readDate(description[name], reading));
    if (description.frequency !== undefined) set('frequency', frequencyOf(description.frequency, reading));
    const { amount: source, deleted } = description;
    const embedded = resource['_embedded'];
    if (source !== undefined) {
      const template = templateOf(source, reading, members['currency_code'] ?? resource['currency_code']);
      members['_embedded'] = { ...(isObject(embedded) && embedded), transaction_template: template };
    }
    return {
      resource: { ...Object.fromEntries(others), ...members },
      isDeleted: deleted !== undefined && isMarked(deleted, resource),
      warnings: reading.warnings,
    };
  };
}

/** Returns the faults that the schema does not find: a zone that does not exist. */
function zoneFaults(description: Description, at: string): string[] {
  return DATES.flatMap((name) => {
    const source = description[name];
    const zone = typeof source === 'object' ? source.zone : undefined;
    try {
      if (zone !== undefined) Temporal.Now.instant().toZonedDateTimeISO(zone);
      return [];
    } catch {
      return [`${at}/${name}/zone: use the name of a time zone, such as UTC or Europe/Berlin`];
    }
  });
}

const SETTING = 'MAPPING_FILE';

/** Returns the mapping of each type in the file. Throws a `ConfigError` with the faults. */
export function readMappings(file: DeclarationFile): ReadonlyMap<string, Mapping> {
  const resources = Object.entries(readFileOf(file, SETTING, File).resources as Readonly<Record<string, Description>>);
  const faults = resources.flatMap(([type, one]) => zoneFaults(one, `/resources/${type}`));
  if (faults.length > 0) return refuseFile(file, SETTING, faults);
  return new Map(resources.map(([type, one]) => [type, mappingOf(one)]));
}

/** Maps the resources of this process as the file says; without a file they have the members that Halcyon knows. */
export function declareMappings(file: DeclarationFile | undefined): void {
  mapResources(file === undefined ? new Map() : readMappings(file));
}
