/** What can be done, as forms: each folded up until somebody wants it, and open where it was refused. */
import type { Fault } from '#kernel/problem.ts';
import type { Action, Document, Field, Naming } from '../document.ts';
import { formValue } from '../form-value.ts';
import { html, type Markup } from '../markup.ts';
import type { Refused, View } from '../view.ts';
import { formField, sentence, type Filled } from './field.ts';
import { hrefOf } from './links.ts';

type Context = { document: Document; naming: Naming; view: View };

/** PUT is PATCH with more to lose: a form has all fields either way. */
const isShown = ({ method }: Action): boolean => method !== 'PUT';

const shownActions = ({ actions = [] }: Document): readonly Action[] => actions.filter(isShown);

const idOf = (action: number, field: number): string => `form-${action}-${field}`;

const isAbout = ({ field }: Fault, { name }: Field): boolean =>
  field !== undefined && (field === name || field.startsWith(`${name}.`));

const listOf = (value: string | readonly string[] | undefined): readonly string[] =>
  value === undefined ? [] : typeof value === 'string' ? [value] : value;

const refusalOf = ({ refused }: View, { name }: Action): Refused | undefined =>
  refused?.action === name ? refused : undefined;

/** What was typed, where the form was refused; else what stands there, but a secret only where it was just made up. */
const valuesOf = (field: Field, isNew: boolean, refused: Refused | undefined): readonly string[] => {
  if (refused !== undefined)
    return listOf(Object.hasOwn(refused.values, field.name) ? refused.values[field.name] : undefined);
  if (field.kind === 'secret' && !(isNew && field.isGenerated === true)) return [];
  return listOf(formValue(field.value));
};

const hidden = (name: string, value: string | number): Markup =>
  html`<input type="hidden" name="${name}" value="${value}" />`;

const fields = (action: Action, index: number, refused: Refused | undefined): Markup[] => {
  const isNew = action.method === 'POST';
  return action.fields.map((field, at): Markup => {
    const faults = refused?.faults.filter((fault) => isAbout(fault, field)) ?? [];
    const filled: Filled = { id: idOf(index, at), field, values: valuesOf(field, isNew, refused), faults, isNew };
    return formField(filled);
  });
};

const form = (
  action: Action,
  index: number,
  { document, naming, view }: Context,
  { nonceOf, onceKey }: NonNullable<View['session']>,
): Markup => {
  const { method, href, title } = action;
  const isDelete = method === 'DELETE';
  const refused = refusalOf(view, action);
  const version = refused?.version ?? document.version;
  return html`<form method="post" action="${hrefOf(href, naming) ?? ''}" autocomplete="off">
    ${hidden('nonce', nonceOf(action))} ${method === 'POST' ? hidden('_key', onceKey) : hidden('_method', method)}
    ${method !== 'POST' && version !== undefined && hidden('_version', version)}
    ${isDelete && html`<p>This cannot be undone.</p>`} ${fields(action, index, refused)}
    <div class="buttons">
      <button type="submit" ${isDelete && html`class="danger"`}>${method === 'PATCH' ? 'Save' : title}</button>
    </div>
  </form>`;
};

/**
 * The forms of a document, none where the reader has no session: the one that was refused, which is to be mended before
 * anything else, and the others. `isFirst` where there is nothing yet but what one of them makes.
 */
export const actionForms = (context: Context, isFirst: boolean): { refused: Markup[]; others: Markup[] } => {
  const { document, view } = context;
  const { session } = view;
  if (session === undefined) return { refused: [], others: [] };
  const forms = shownActions(document).map((action, index) => {
    const isRefused = refusalOf(view, action) !== undefined;
    const isOpen = isRefused || (isFirst && action.method === 'POST');
    const markup = html`<details class="card" ${isOpen && html`open`}>
      <summary>${action.title}</summary>
      ${form(action, index, context, session)}
    </details>`;
    return { isRefused, markup };
  });
  const those = (isRefused: boolean) => forms.filter((one) => one.isRefused === isRefused).map(({ markup }) => markup);
  return { refused: those(true), others: those(false) };
};

/** Where on the page the field of a fault is; undefined where the form does not show it. */
const placeOf = (fault: Fault, document: Document, refused: Refused): string | undefined => {
  const actions = shownActions(document);
  const index = actions.findIndex(({ name }) => name === refused.action);
  const at = actions[index]?.fields.findIndex((field) => isAbout(fault, field)) ?? -1;
  return at === -1 ? undefined : idOf(index, at);
};

/** Everything that is wrong with a form that was refused, each a way to its field. */
export const refusedAlert = ({ document, view: { refused } }: Pick<Context, 'document' | 'view'>): Markup | false => {
  if (refused === undefined) return false;
  const { faults } = refused;
  const entry = (fault: Fault): Markup => {
    const place = placeOf(fault, document, refused);
    const message = sentence(fault.message);
    return html`<li>${place === undefined ? message : html`<a href="#${place}">${message}</a>`}</li>`;
  };
  return html`<div class="alert" role="alert">
    <p>Nothing was saved. ${faults.length === 1 ? 'One thing is' : `${faults.length} things are`} to be mended:</p>
    <ul>
      ${faults.map(entry)}
    </ul>
  </div>`;
};
