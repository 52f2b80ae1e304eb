/**
 * Keeps a form that was sent after the session had ended, until the person has signed in: then its page shows it again, and nothing is
 * sent without them. The browser carries it, sealed. Secrets are not kept, nor what may be one: headers and the query of a url.
 */
import type { Document, Field } from '#hypermedia/document.ts';
import type { Refused } from '#hypermedia/view.ts';
import type { FormPost } from './form-post.ts';

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
