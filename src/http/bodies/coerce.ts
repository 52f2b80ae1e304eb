/** Converts the texts of forms and XML to the types of the schema. */
import type { TSchema } from 'typebox';
import { Problem } from '#core/problem.ts';
import { parseJson } from './json-body.ts';

type Properties = Readonly<Record<string, TSchema & Readonly<Record<string, unknown>>>>;

export const propertiesOf = (schema: TSchema): Properties => (schema as { properties?: Properties }).properties ?? {};

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const parseJsonText = (text: string): unknown => {
  try {
    return parseJson(Buffer.from(text));
  } catch (error) {
    if (error instanceof Problem) return text;
    throw error;
  }
};

/**
 * Parses an object from lines of `Name: value` or from JSON. Returns the text itself if it is neither, or if a name
 * occurs twice.
 */
const parseObjectText = (text: string): unknown => {
  if (text.trimStart().startsWith('{')) return parseJsonText(text);
  const lines = text.split(/\r\n?|\n/).filter((line) => line.trim() !== '');
  const members = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, Math.max(0, colon)).trim(), line.slice(colon + 1).trim()];
  });
  const names = new Set(members.map(([name]) => name));
  return names.has('') || names.size < members.length ? text : Object.fromEntries(members);
};

/** Converts a value to the type of its schema. A value that does not fit stays as it is, and validation reports it. */
const coerce = (schema: TSchema, value: unknown): unknown => {
  const { type, items } = schema as { type?: string | readonly string[]; items?: TSchema };
  if (Array.isArray(value)) return items === undefined ? value : value.map((item) => coerce(items, item));
  if (isObject(value)) return coerceMembers(schema, value);
  const types = new Set([type].flat());
  if (typeof value !== 'string' || types.has('string')) return value;
  if (value.trim() === '' && types.has('null')) return null;
  if (types.has('object')) return parseObjectText(value);
  return types.has('integer') && /^-?[0-9]{1,15}$/.test(value) ? Number(value) : value;
};

export const coerceMembers = (schema: TSchema, value: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const properties = propertiesOf(schema);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
      return [name, property === undefined ? member : coerce(property, member)];
    }),
  );
};
