/**
 * Parses a form that a page has posted: PATCH, PUT and DELETE are a POST with `_method`, protected by the nonce of the
 * session. The result is the body that a program would send, for the same operation. A form that was sent after the session had ended is kept
 * until the person has signed in: then its page shows it again, and nothing is sent without them. The browser carries it, sealed. Secrets
 * are not kept, nor what may be one: headers and the query of a url.
 */
import type { Action, Document, Field } from '#hypermedia/document.ts';
import { formValue, OTHER, PREVIEW } from '#hypermedia/html/form.ts';
import { invalidValue, Problem } from '#core/problem.ts';
import { parseForm, withoutIndex } from '../bodies/body.ts';
import type { Visitor } from '../caller.ts';
import { METHODS, type Method } from '../route.ts';
import type { Refused } from '#hypermedia/view.ts';

/** Fields that belong to the form itself. */
const FORM_FIELDS = { method: '_method', version: '_version', key: '_key', nonce: 'nonce', preview: PREVIEW } as const;

/** Fields in which a person proves who they are before a sensitive change. */
export const VERIFICATION_FIELDS = {
  code: 'verification_code',
  passkey: 'verification_passkey',
  password: 'verification_password',
  /** The sealed form that the confirmation repeats. */
  form: 'verification_form',
} as const;

const notInput: ReadonlySet<string> = new Set([...Object.values(FORM_FIELDS), ...Object.values(VERIFICATION_FIELDS)]);

export type FormPost = {
  method: Exclude<Method, 'GET'>;
  /** The version that the page showed; empty if the document has none. */
  version: string;
  /** Idempotency key of the page that contained the form: a form that is sent twice runs once. */
  key: string | undefined;
  /** The form asks what it would do. */
  isPreview: boolean;
  /** The form is not of this session, or not of this action. */
  isStale: boolean;
  /** The input by name; `name[]`, `name.other` and `name` are one field. */
  values: Readonly<Record<string, readonly string[]>>;
};

/**
 * Returns the text with LF line ends: browsers send CR LF (WHATWG URL-encoded form data), which the person did not
 * type.
 */
const withPlainEnds = (text: string): string => text.replaceAll(/\r\n?/g, '\n');

/** Parses the form of a visitor, or of a person whose session has ended. Throws a 400 for an unknown method. */
export function readFormPost(bytes: Uint8Array, path: string, visitor: Visitor | null): FormPost {
  const posted = parseForm(bytes);
  const form = visitor?.restored(posted, path) ?? posted;
  const method = form.get(FORM_FIELDS.method) ?? 'POST';
  if (method === 'GET' || !(METHODS as readonly string[]).includes(method)) {
    throw new Problem(400, invalidValue(FORM_FIELDS.method, `${FORM_FIELDS.method} must be a method`));
  }
  const isStale = visitor?.isNonce(form.get(FORM_FIELDS.nonce), [method, path]) !== true;
  const values: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  for (const [rawName, value] of form) {
    const name = withoutIndex(rawName.endsWith(OTHER) ? rawName.slice(0, -OTHER.length) : rawName);
    if (!notInput.has(name)) (values[name] ??= []).push(withPlainEnds(value));
  }
  const [version, key] = [form.get(FORM_FIELDS.version) ?? '', form.get(FORM_FIELDS.key) ?? undefined];
  const isPreview = form.has(FORM_FIELDS.preview);
  return { method: method as FormPost['method'], version, key, isPreview, isStale, values };
}

const asList = (value: string | readonly string[]): readonly string[] =>
  typeof value === 'string' ? (value === '' ? [] : [value]) : value;

/** No list of an operation may be as long, so a longer one is refused also without its further lines. 90,000 took 130 ms. */
const LINES_MAX = 1_000;

/** Returns the values of a field with several: each line of a text area and each ticked box is one. */
const severalOf = (values: readonly string[]): string[] =>
  values
    .join('\n')
    .split('\n', LINES_MAX)
    .map((line) => line.trim())
    .filter((line) => line !== '');

/**
 * Returns the body that a program would send: for a new resource the fields that are filled in, for an existing one
 * those that differ from the current values, so that an empty secret keeps its value and two dependent fields (an event
 * and its resource) can be changed one at a time. White space around a text is removed: pasted into a key it would be
 * invisible and break every signature.
 */
export function bodyOf({ method, values }: FormPost, { fields }: Pick<Action, 'fields'>): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  const known = new Set(fields.map(({ name }) => name));
  for (const field of fields) {
    const submitted = values[field.name];
    const present = asList(formValue(field.value));
    if (field.isMultiple) {
      const several = severalOf(submitted ?? []);
      const isChanged = method === 'POST' ? several.length > 0 : several.join('\n') !== present.join('\n');
      if (isChanged) body[field.name] = several;
    } else if (submitted !== undefined) {
      // A choice of suggested values sends the chosen one first, and is empty for another one.
      const typed = submitted.find((value) => value !== '') ?? '';
      const [text, stored] = [typed.trim(), withPlainEnds(present[0] ?? '')];
      const keepsValue = text === '' && (method === 'POST' || field.kind === 'secret');
      // A program may have stored blanks, which a person can clear.
      const isSame = typed === stored || (text === stored.trim() && (typed === '') === (stored === ''));
      if (!keepsValue && (method === 'POST' || !isSame)) body[field.name] = text;
    }
  }
  // Fields that the form does not have are rejected by the schema.
  for (const [name, [text]] of Object.entries(values)) if (!known.has(name)) body[name] = text;
  return body;
}

/** `page` shows the form, which is sent to `path`. `omitted`: the fields that were filled in and are not kept. */
export type KeptForm = Pick<FormPost, 'method' | 'version' | 'values'> & {
  page: string;
  path: string;
  omitted: readonly string[];
};

/** Larger forms are not read from people without a session. What is kept of them must fit in a cookie. */
export const KEPT_BODY_BYTES_MAX = 16 * 1024;

/** A url is stored in plain text up to its query (core/request-secrets.ts). */
const isKept = ({ kind, isSensitive }: Field, values: readonly string[]): boolean =>
  kind === 'url' ? !values.some((value) => value.includes('?')) : kind !== 'secret' && isSensitive !== true;

/** Returns what is kept of a form; undefined if nothing was filled in. Values of other names than those of the fields are not kept. */
export function keptForm(
  { method, version, values }: FormPost,
  { page, path, fields }: Pick<KeptForm, 'page' | 'path'> & { fields: readonly Field[] },
): KeptForm | undefined {
  const filled = fields.flatMap((field) => {
    const entered = values[field.name] ?? [];
    return entered.some((value) => value !== '') ? [{ field, entered }] : [];
  });
  if (filled.length === 0) return undefined;
  const kept = filled.filter(({ field, entered }) => isKept(field, entered));
  const empty = fields.flatMap(({ name }) => (values[name]?.every((value) => value === '') ? [[name, ['']]] : []));
  return {
    method,
    version,
    page,
    path,
    values: Object.fromEntries([...empty, ...kept.map(({ field, entered }) => [field.name, entered])]),
    omitted: filled.filter((one) => !kept.includes(one)).map(({ field }) => field.name),
  };
}

/** Returns the form as its page shows it again; undefined if the reader has no such form there. */
export function shownAgain(
  { method, path, version, values, omitted }: KeptForm,
  document: Document,
): Refused | undefined {
  const action = document.actions?.find((one) => one.method === method && new URL(one.href).pathname === path);
  const faults = [
    { code: 'signed_out', message: 'You were signed out when you sent this: check it, and send it again' },
    ...omitted.map((field) => ({
      code: 'not_kept',
      field,
      message: `${field} may be a secret, which is not kept while you are signed out: check it`,
    })),
  ];
  return action && { action: action.name, values, version, faults };
}
