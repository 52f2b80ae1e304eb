/** The actions of a Siren entity: what can be done, and what each of it takes. */
import type { Action, Field, Kind, Value } from './document.ts';

type Json = { [name: string]: unknown };

/** The nearest of the input types that Siren takes from HTML; it has no `textarea` and no `select`. */
const types = {
  text: 'text',
  code: 'text',
  json: 'text',
  enumeration: 'text',
  number: 'number',
  count: 'number',
  money: 'number',
  progress: 'number',
  trend: 'text',
  boolean: 'radio',
  date: 'datetime',
  url: 'url',
  secret: 'password',
} as const satisfies Readonly<Record<Kind, string>>;

type Choice = { title?: string; value: string };

const yesOrNo: readonly Choice[] = [
  { title: 'Yes', value: '1' },
  { title: 'No', value: '0' },
];

/** What clears a choice; it stands last, so that nobody takes it for the usual one. */
const none: Choice = { title: 'None', value: '' };

/** What may be chosen; undefined where anything may be said. */
const choicesOf = ({ kind, choices, isClearable }: Field): readonly Choice[] | undefined => {
  if (kind === 'boolean') return yesOrNo;
  const all = choices?.map((value) => ({ value }));
  return isClearable === true ? all?.concat(none) : all;
};

const textOf = (value: Value): string => {
  if (typeof value === 'boolean') return value ? '1' : '0';
  return typeof value === 'string' ? value : JSON.stringify(value);
};

/** Values of a field are texts, numbers or lists of things to choose; neither null nor objects nor booleans. */
const valueOf = (field: Field): string | number | readonly Json[] | undefined => {
  const { value = null, isMultiple } = field;
  const present: readonly Value[] = isMultiple && Array.isArray(value) ? (value as readonly Value[]) : [value];
  const choices = choicesOf(field);
  if (choices !== undefined) {
    const selected = new Set(present.map(textOf));
    return choices.map(({ title, value: own }) => ({ title, value: own, selected: selected.has(own) || undefined }));
  }
  if (value === null) return undefined;
  if (isMultiple) return present.map((one) => ({ value: textOf(one), selected: true }));
  return typeof value === 'number' ? value : textOf(value);
};

/** Siren has no words for what is required or may be said several times, so they stand in the field's class. */
const classOf = ({ kind, isRequired, isMultiple }: Field): string[] => [
  kind,
  ...(isRequired ? ['required'] : []),
  ...(isMultiple ? ['multiple'] : []),
];

const typeOf = (field: Field): string => {
  if (choicesOf(field) === undefined) return types[field.kind];
  return field.isMultiple ? 'checkbox' : 'radio';
};

/** `min` and `max` are HTML's; how long a text may be cannot be said. What is undefined is left out when it is written. */
const fieldOf = (field: Field): Json => ({
  name: field.name,
  class: classOf(field),
  type: typeOf(field),
  title: field.hint,
  min: field.minimum,
  max: field.maximum,
  value: valueOf(field),
});

/** JSON, because a form could not tell numbers and lists from texts. Without fields there is no body, so no type. */
export const sirenAction = ({ name, title, method, href, fields }: Action): Json => ({
  name,
  title,
  method,
  href,
  ...(fields.length > 0 && { type: 'application/json', fields: fields.map(fieldOf) }),
});
