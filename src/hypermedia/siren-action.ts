/** Actions and fields of a Siren entity. */
import type { Action, Field, Kind, Value } from './document.ts';

type Json = { [name: string]: unknown };

/** The nearest input type that Siren takes from HTML; it has no `textarea` and no `select`. */
const INPUT_TYPES = {
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

/** Clears the value; last, so that clients do not take it for the default. */
const none: Choice = { title: 'None', value: '' };

/** Returns the choices; undefined if any value is possible. */
function choicesOf({ kind, choices, isClearable }: Field): readonly Choice[] | undefined {
  if (kind === 'boolean') return yesOrNo;
  const all = choices?.map((value) => ({ value }));
  return isClearable === true ? all?.concat(none) : all;
}

function textOf(value: Value): string {
  if (typeof value === 'boolean') return value ? '1' : '0';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * Returns the value of a field: a text, a number or a list of choices. Siren permits neither null nor objects nor
 * booleans.
 */
function valueOf(field: Field): string | number | readonly Json[] | undefined {
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
}

/** Siren cannot express required fields and multiple values, so they are in the class of the field. */
const classOf = ({ kind, isRequired, isMultiple }: Field): string[] => [
  kind,
  ...(isRequired ? ['required'] : []),
  ...(isMultiple ? ['multiple'] : []),
];

function typeOf(field: Field): string {
  if (choicesOf(field) === undefined) return INPUT_TYPES[field.kind];
  return field.isMultiple ? 'checkbox' : 'radio';
}

/** `min` and `max` are HTML's; the length of a text cannot be expressed. JSON omits undefined members. */
const fieldOf = (field: Field): Json => ({
  name: field.name,
  class: classOf(field),
  type: typeOf(field),
  title: field.hint,
  min: field.minimum,
  max: field.maximum,
  value: valueOf(field),
});

/**
 * The type is JSON, because a form cannot distinguish numbers and lists from texts. Without fields there is no body and
 * no type.
 */
export function sirenAction({ name, title, method, href, fields }: Action): Json {
  return {
    name,
    title,
    method,
    href,
    ...(fields.length > 0 && { type: 'application/json', fields: fields.map(fieldOf) }),
  };
}
