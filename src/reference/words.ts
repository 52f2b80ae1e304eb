/** What the reference says in words of everything alike: who may, what a field takes, how a listing is asked. */
import type { Operation } from '#http/operation.ts';
import type { Field, Kind, Property } from '#hypermedia/document.ts';

export const WHO_MAY: Readonly<Record<Operation['access'], string>> = {
  anyone: 'Anyone, with or without a token.',
  token: 'Any token that reaches it.',
  owner: 'Whoever has a token with the scope platform, and in person the owners of the store.',
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
  json: 'object',
  progress: 'number',
  trend: 'list of numbers',
};

/** `text`, or `list of text`. */
export const kindOf = ({ kind, isMultiple }: Pick<Field, 'kind' | 'isMultiple'>): string =>
  isMultiple ? `list of ${KINDS[kind]}` : KINDS[kind];

/** What a property that is read holds: of what a publisher wrote, only the value tells. */
export const kindOfProperty = ({ kind, value }: Property): string => {
  if (kind !== 'json') return KINDS[kind];
  if (Array.isArray(value)) return 'list';
  if (value === null) return 'anything';
  return { string: 'text', number: 'number', boolean: 'yes or no' }[typeof value as string] ?? 'object';
};

const range = (least: number | undefined, most: number | undefined, unit: string): string | undefined => {
  if (least === undefined && most === undefined) return undefined;
  if (least === undefined) return `at most ${most}${unit}`;
  return most === undefined || most >= Number.MAX_SAFE_INTEGER
    ? `at least ${least}${unit}`
    : `${least} to ${most}${unit}`;
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

/** What the status of an error means. */
export const FAULTS: Readonly<Record<string, string>> = {
  '400': 'The request is wrong: the version header, a parameter, or something in the body',
  '401': 'There is no token, or it does not count any more',
  '403': 'The scope of the token does not reach this',
  '404': 'It is not there, or it is not yours',
  '406': 'Accept allows nothing that there is',
  '409': 'A limit or a state forbids it',
  '412': 'It has changed since you read it',
  '413': 'The body is too large',
  '415': 'The body is in a format that cannot be read',
  '422': 'The Idempotency-Key was used for another body',
  '429': 'Too many requests',
  '503': 'The service cannot do it right now',
};
