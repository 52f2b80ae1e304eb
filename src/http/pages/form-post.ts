/**
 * A form that a page of ours has posted: PATCH, PUT and DELETE in a POST with `_method`, proved by the session's nonce. What
 * a browser sends is made into what a program would have sent, and judged by the same operation.
 */
import type { Action } from '#hypermedia/document.ts';
import { formValue } from '#hypermedia/form-value.ts';
import { Problem } from '#core/problem.ts';
import { parseForm } from '../bodies/body.ts';
import type { Visitor } from '../caller.ts';
import { METHODS, type Method } from '../route.ts';

/** Fields of the form itself. */
const OWN = { method: '_method', version: '_version', key: '_key', nonce: 'nonce' } as const;

export type FormPost = {
  method: Exclude<Method, 'GET'>;
  /** The version that was shown; empty where the document has none. */
  version: string;
  /** Of the page that it stood on: sent twice, it is done once. */
  key: string | undefined;
  /** What was typed, by name; `name[]` and `name` are one. */
  values: Readonly<Record<string, readonly string[]>>;
};

/** Browsers send line ends as CR LF (WHATWG URL-encoded form data); nobody has typed the CR. */
const withPlainEnds = (text: string): string => text.replaceAll(/\r\n?/g, '\n');

/** Throws a 403 where the nonce is not that of this session for this deed, and a 400 where the method is none of ours. */
export const readFormPost = (bytes: Uint8Array, path: string, visitor: Visitor): FormPost => {
  const form = parseForm(bytes);
  const method = form.get(OWN.method) ?? 'POST';
  if (method === 'GET' || !(METHODS as readonly string[]).includes(method)) {
    throw new Problem(400, { code: 'invalid_value', message: `${OWN.method} names no method`, field: OWN.method });
  }
  if (!visitor.isNonce(form.get(OWN.nonce), [method, path])) {
    const message =
      'Since this form was opened you have signed in again; nothing was changed. Load the page and send it again';
    throw new Problem(403, { code: 'stale_form', message });
  }
  const values: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  for (const [rawName, value] of form) {
    const name = rawName.replace(/\[[0-9]*\]$/, '');
    if (!(Object.values(OWN) as string[]).includes(name)) (values[name] ??= []).push(withPlainEnds(value));
  }
  const [version, key] = [form.get(OWN.version) ?? '', form.get(OWN.key) ?? undefined];
  return { method: method as FormPost['method'], version, key, values };
};

const asList = (value: string | readonly string[]): readonly string[] =>
  typeof value === 'string' ? (value === '' ? [] : [value]) : value;

/** The lines of a text area count one by one, as do the boxes that are ticked. */
const severalOf = (values: readonly string[]): string[] =>
  values
    .flatMap((value) => value.split('\n'))
    .map((line) => line.trim())
    .filter((line) => line !== '');

/**
 * The body that a program would send. A new thing is told what was filled in; a present one what differs from what stands
 * there, so that two fields that follow from each other (an event and its resource) can be changed one at a time, and a
 * secret that was left empty stays. Blanks around a text were pasted along: in a key nobody would see them, and no signature
 * would match.
 */
export const bodyOf = ({ method, values }: FormPost, { fields }: Pick<Action, 'fields'>): Record<string, unknown> => {
  const body: Record<string, unknown> = {};
  const known = new Set(fields.map(({ name }) => name));
  for (const field of fields) {
    const given = values[field.name];
    const present = asList(formValue(field.value));
    if (field.isMultiple) {
      const several = severalOf(given ?? []);
      const isNews = method === 'POST' ? several.length > 0 : several.join('\n') !== present.join('\n');
      if (isNews) body[field.name] = several;
    } else if (given !== undefined) {
      const text = (given[0] ?? '').trim();
      const isKept = text === '' && (method === 'POST' || field.kind === 'secret');
      if (!isKept && (method === 'POST' || text !== withPlainEnds(present[0] ?? '').trim())) body[field.name] = text;
    }
  }
  // What no field of ours has sent is the schema's to refuse.
  for (const [name, [text]] of Object.entries(values)) if (!known.has(name)) body[name] = text;
  return body;
};
