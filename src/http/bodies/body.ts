/** Parses the bytes of a request body by content type, or throws a 400 that describes the fault. */
import type { TSchema } from 'typebox';
import { Problem, invalid } from '#core/problem.ts';
import { parseJson, decode, jsonLinesOf, malformed } from './json-body.ts';
import { parseXml } from './xml-body.ts';

type Properties = Readonly<Record<string, TSchema & Readonly<Record<string, unknown>>>>;

export function propertiesOf(schema: TSchema): Properties {
  return (schema as { properties?: Properties }).properties ?? {};
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseJsonText(text: string): unknown {
  try {
    return parseJson(Buffer.from(text));
  } catch (error) {
    if (error instanceof Problem) return text;
    throw error;
  }
}

/** More than the longest headers of a webhook. 1 MiB of lines with different names took 0.5 s. */
const OBJECT_TEXT_LENGTH_MAX = 32 * 1024;

/**
 * Parses an object from lines of `Name: value` or from JSON. Returns the text itself if it is neither or too long, or if a name
 * occurs twice.
 */
function parseObjectText(text: string): unknown {
  if (text.length > OBJECT_TEXT_LENGTH_MAX) return text;
  if (text.trimStart().startsWith('{')) return parseJsonText(text);
  const lines = text.split(/\r\n?|\n/).filter((line) => line.trim() !== '');
  const members = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, Math.max(0, colon)).trim(), line.slice(colon + 1).trim()];
  });
  const names = new Set(members.map(([name]) => name));
  return names.has('') || names.size < members.length ? text : Object.fromEntries(members);
}

/** Converts a value to the type of its schema. A value that does not fit stays as it is, and validation reports it. */
function coerce(schema: TSchema, value: unknown): unknown {
  const { type, items } = schema as { type?: string | readonly string[]; items?: TSchema };
  if (Array.isArray(value)) return items === undefined ? value : value.map((item) => coerce(items, item));
  if (isObject(value)) return coerceMembers(schema, value);
  const types = new Set([type].flat());
  if (typeof value !== 'string' || types.has('string')) return value;
  if (value.trim() === '' && types.has('null')) return null;
  if (types.has('object')) return parseObjectText(value);
  return types.has('integer') && /^-?[0-9]{1,15}$/.test(value) ? Number(value) : value;
}

/** Converts the texts of forms and XML to the types of the schema. */
export function coerceMembers(schema: TSchema, value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const properties = propertiesOf(schema);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
      return [name, property === undefined ? member : coerce(property, member)];
    }),
  );
}

/** Node's parser takes 4 s for the 500,000 fields that fit into a body. */
const FORM_FIELDS_MAX = 1_000;

const [PLUS, SPACE] = [0x2b, 0x20];

/**
 * Returns the bytes with a space for each `+`. For 16 MiB `replaceAll` and URLSearchParams take 1 s, this loop 10 ms.
 */
function withSpaces(bytes: Uint8Array): Uint8Array {
  if (!bytes.includes(PLUS)) return bytes;
  const spaced = Uint8Array.from(bytes);
  for (let at = 0; at < spaced.length; at += 1) if (spaced[at] === PLUS) spaced[at] = SPACE;
  return spaced;
}

function decodePercent(part: string): string {
  if (!part.includes('%')) return part;
  try {
    return decodeURIComponent(part);
  } catch {
    throw malformed('The form is not valid percent-encoded UTF-8');
  }
}

/**
 * Parses a form (application/x-www-form-urlencoded). Decodes `+` and percent sequences; throws a 400 for invalid UTF-8.
 */
export function parseForm(bytes: Uint8Array): URLSearchParams {
  const text = decode(withSpaces(bytes));
  const fields = text.split('&', FORM_FIELDS_MAX + 1);
  if (fields.length > FORM_FIELDS_MAX) throw malformed(`The form has more than ${FORM_FIELDS_MAX} fields`);
  const form = new URLSearchParams();
  for (const field of fields) {
    if (field === '') continue;
    const end = field.includes('=') ? field.indexOf('=') : field.length;
    const [name, value] = [decodePercent(field.slice(0, end)), decodePercent(field.slice(end + 1))];
    if (name.includes('\0') || value.includes('\0')) throw malformed('The form contains a NUL character', name);
    form.append(name, value);
  }
  return form;
}

/**
 * Requirements of the schema: members that are arrays, and, for an operation that validates its body itself, members that
 * are objects and must be parsed here because no later step coerces them. Numbers in such a body stay as they are written.
 */
export type BodyShape = {
  arrays: ReadonlySet<string>;
  objects?: ReadonlySet<string> | undefined;
  membersMax?: number;
  /** The body changes only the members that it has, so a merge patch (RFC 7396) is accepted. */
  isPatch?: boolean;
  /** How many lines of JSON the body may be, which become an array of `JsonLine`. */
  linesMax?: number | undefined;
};

/** Parses a field that contains JSON. Faults are reported under the name of the field. */
function jsonOf(name: string, text: string): unknown {
  try {
    return parseJson(Buffer.from(text), { keepsNumbers: true });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const faults = error.faults.map(({ field, code, message }) => ({
      code,
      message: message.replace('The body', name),
      field: field === undefined ? name : `${name}.${field}`,
    }));
    throw invalid(...faults);
  }
}

/** Returns the name without `[]` or `[0]` at its end. `/\[[0-9]*\]$/` tried 16 MiB of `[` one by one, for 150 ms. */
export function withoutIndex(name: string): string {
  const at = name.endsWith(']') ? name.lastIndexOf('[') : -1;
  return at !== -1 && /^\[[0-9]*\]$/.test(name.slice(at)) ? name.slice(0, at) : name;
}

/**
 * Returns a form as an object. `events`, `events[]` and `events[0]` make an array if the schema requires one; an empty
 * text makes an empty array.
 */
function formToObject(form: URLSearchParams, { arrays, objects }: BodyShape): Record<string, unknown> {
  const object: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  // A token is accepted in one place only (RFC 6750 §2), here the header.
  if (form.get('access_token')) {
    const message = 'Send the access token in the Authorization header, never in the body';
    throw invalid({ code: 'invalid_request', message, field: 'access_token' });
  }
  for (const [rawName, value] of form) {
    const name = withoutIndex(rawName);
    const present = object[name];
    if (Array.isArray(present)) present.push(value);
    else if (arrays.has(name)) object[name] = value === '' ? [] : [value];
    else if (present === undefined) object[name] = objects?.has(name) === true ? jsonOf(name, value) : value;
    else throw invalid({ code: 'duplicate_parameter', message: `${name} is sent twice`, field: name });
  }
  return object;
}

const bodyMediaTypes = [
  'application/json',
  'application/hal+json',
  'application/xml',
  'application/hal+xml',
  'application/x-www-form-urlencoded',
] as const;

/** Newline-delimited JSON, for the operations that take it. */
const LINES_MEDIA_TYPE = 'application/x-ndjson';

/** Returns the media types of a request body; the reference lists them, too. */
export function mediaTypesOf({ takesLines }: { takesLines: boolean }): readonly string[] {
  return takesLines ? [...bodyMediaTypes, LINES_MEDIA_TYPE] : bodyMediaTypes;
}

/** Throws a 415 for a charset other than UTF-8 (RFC 8259 §8.1), because the body would be decoded wrongly. */
function requireUtf8(parameters: readonly string[]): void {
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length);
  if (charset === undefined || ['utf-8', 'utf8', 'us-ascii'].includes(charset.replaceAll('"', ''))) return;
  throw new Problem(415, {
    code: 'unsupported_media_type',
    message: 'Send the body in UTF-8',
    field: 'Content-Type',
  });
}

/** Throws a 415 for an encoded body; `Accept-Encoding` says that the encoding is the reason (RFC 9110 §12.5.3, §15.5.16). */
export function refuseEncoding(encoding: string | undefined): void {
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  const message = 'Send the body as it is, without a Content-Encoding';
  const fault = { code: 'unsupported_media_type', message, field: 'Content-Encoding' };
  throw new Problem(415, fault, { headers: { 'Accept-Encoding': 'identity' } });
}

/** Parses a body by its content type into the shape that the schema requires. Throws 400 and 415. */
export function parseBody(bytes: Uint8Array, contentType: string, shape: BodyShape): unknown {
  const [mediaType = '', ...parameters] = contentType
    .toLowerCase()
    .split(';')
    .map((part) => part.trim());
  requireUtf8(parameters);
  if (shape.linesMax !== undefined && mediaType === LINES_MEDIA_TYPE) return jsonLinesOf(bytes, shape.linesMax);
  switch (shape.isPatch === true && mediaType === 'application/merge-patch+json' ? 'application/json' : mediaType) {
    case 'application/json':
    case 'application/hal+json':
    // `fetch` sends every string with this type. Only bearer requests reach this code: forms of a session are read by
    // http/pages/form-post.ts.
    case 'text/plain':
      return parseJson(bytes, { membersMax: shape.membersMax, keepsNumbers: shape.objects !== undefined });
    case 'application/x-www-form-urlencoded':
      return formToObject(parseForm(bytes), shape);
    case 'application/xml':
    case 'application/hal+xml':
    case 'text/xml':
      return parseXml(bytes, shape.arrays);
    default:
      throw new Problem(415, {
        code: 'unsupported_media_type',
        message: `Send ${mediaTypesOf({ takesLines: shape.linesMax !== undefined })
          .join(', ')
          .replace(/, (?=[^,]*$)/, ' or ')}`,
        field: 'Content-Type',
      });
  }
}
