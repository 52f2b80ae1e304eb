/** What the reference says in words of everything alike: who may, what a field takes, how a listing is asked. */
import type { Operation } from '#http/operation.ts';
import type { Field, Kind, Property } from '#hypermedia/document.ts';

export const WHO_MAY: Readonly<Record<Operation['access'], string>> = {
  anyone: 'Anyone, with or without a token.',
  token: 'Any token that reaches it.',
  platform: 'The platform: a token with the scope platform.',
};

const KINDS: Readonly<Record<Kind, string>> = {
  text: 'text',
  number: 'number',
  count: 'count',
  boolean: 'yes or no',
  date: 'date',
  url: 'address',
  code: 'text',
  secret: 'secret text',
  enumeration: 'one of a list',
  money: 'amount of money',
  json: 'anything',
};

/** `text`, or `list of text`. */
export const kindOf = ({ kind, isMultiple }: Pick<Field, 'kind' | 'isMultiple'>): string =>
  isMultiple ? `list of ${KINDS[kind]}` : KINDS[kind];

/** What a property that is read holds: of what a publisher wrote, only the value tells. */
export const kindOfProperty = ({ kind, value }: Property): string => {
  if (kind !== 'json') return KINDS[kind];
  if (Array.isArray(value)) return 'list';
  if (value === null) return KINDS.json;
  return { string: 'text', number: 'number', boolean: 'yes or no' }[typeof value as string] ?? 'object';
};

const range = (least: number | undefined, most: number | undefined, unit: string): string | undefined => {
  if (least === undefined && most === undefined) return undefined;
  if (least === undefined) return `at most ${most}${unit}`;
  return most === undefined ? `at least ${least}${unit}` : `${least} to ${most}${unit}`;
};

/** What a field's value must be, as far as its schema tells; empty where anything goes. */
export const constraintsOf = ({ minLength, maxLength, minimum, maximum, choices }: Field): string =>
  [
    range(minLength, maxLength, ' characters'),
    range(minimum, maximum, ''),
    choices === undefined ? undefined : `one of ${choices.join(', ')}`,
  ]
    .filter((part) => part !== undefined)
    .join('; ');

const MODIFIERS: Readonly<Record<string, string>> = {
  offset: 'How many items to skip; 0 unless said.',
  limit: 'How many items a page has, 1 to 300; 20 unless said.',
  order: 'The properties to order by, parted by commas, each with an optional " desc".',
  fields: 'The properties to show, parted by commas.',
  zoom: 'The relations to embed, parted by commas; a colon leads one level down.',
};

/** Undefined for a modifier that only one operation knows. */
export const aboutModifier = (name: string): string | undefined =>
  Object.hasOwn(MODIFIERS, name) ? MODIFIERS[name] : undefined;
