/** What can be done, as forms: each folded up until somebody wants it, and open where it was refused. */
import type { Fault } from '#core/problem.ts';
import type { Action, Document, Field, Naming } from '../document.ts';
import { formValue } from '../form-value.ts';
import { html, type Markup } from '../markup.ts';
import type { Refused, View } from '../view.ts';
import { formField, sentence, type Filled } from './field.ts';
import { hrefOf } from './links.ts';
import { inSentence } from './words.ts';

type Context = { document: Document; naming: Naming; view: View };

/** PUT is PATCH with more to lose: a form has all fields either way. */
const isShown = ({ method }: Action): boolean => method !== 'PUT';

/** What ends it comes last. */
const shownActions = ({ actions = [] }: Document): readonly Action[] => [
  ...actions.filter((action) => isShown(action) && action.method !== 'DELETE'),
  ...actions.filter(({ method }) => method === 'DELETE'),
];

const idOf = (action: number, field: number): string => `form-${action}-${field}`;

const isAbout = ({ field }: Fault, { name }: Field): boolean =>
  field !== undefined && (field === name || field.startsWith(`${name}.`));

const listOf = (value: string | readonly string[] | undefined): readonly string[] =>
  value === undefined ? [] : typeof value === 'string' ? [value] : value;

const refusalOf = ({ refused }: View, { name }: Action): Refused | undefined =>
  refused?.action === name ? refused : undefined;

type Begun = { refused: Refused | undefined; suggested: Readonly<Record<string, string>> };

/**
 * What was typed, where the form was refused; else what stands there, but a secret only where it was just made up; else what is
 * suggested.
 */
const valuesOf = (field: Field, isNew: boolean, { refused, suggested }: Begun): readonly string[] => {
  if (refused !== undefined)
    return listOf(Object.hasOwn(refused.values, field.name) ? refused.values[field.name] : undefined);
  if (field.kind === 'secret' && !(isNew && field.isGenerated === true)) return [];
  if (isNew && field.value === undefined && Object.hasOwn(suggested, field.name)) return listOf(suggested[field.name]);
  return listOf(formValue(field.value));
};

const hidden = (name: string, value: string | number): Markup =>
  html`<input type="hidden" name="${name}" value="${value}" />`;

/** What few want stands folded up below the rest, unless something is wrong with it. */
const fields = (action: Action, index: number, begun: Begun): Markup => {
  const { refused } = begun;
  const isNew = action.method === 'POST';
  const all = action.fields.map((field, at): Filled => {
    const faults = refused?.faults.filter((fault) => isAbout(fault, field)) ?? [];
    return { id: idOf(index, at), field, values: valuesOf(field, isNew, begun), faults, isNew };
  });
  const minor = all.filter(({ field }) => field.isMinor === true);
  const isOpen = minor.some(({ faults }) => faults.length > 0);
  return html`${all.filter(({ field }) => field.isMinor !== true).map(formField)}
  ${
    minor.length > 0 &&
    html`<details class="fold" ${isOpen && html`open`}>
      <summary>More settings: ${minor.map(({ field }) => inSentence(field.name)).join(', ')}</summary>
      ${minor.map(formField)}
    </details>`
  }`;
};

const form = (
  action: Action,
  index: number,
  { document, naming, view }: Context,
  { nonceOf, onceKey }: NonNullable<View['session']>,
): Markup => {
  const { method, href, title, about } = action;
  const isDelete = method === 'DELETE';
  const refused = refusalOf(view, action);
  const version = refused?.version ?? document.version;
  return html`<form method="post" action="${hrefOf(href, naming) ?? ''}" autocomplete="off">
    ${hidden('nonce', nonceOf(action))} ${method === 'POST' ? hidden('_key', onceKey) : hidden('_method', method)}
    ${action.name !== 'create' && version !== undefined && hidden('_version', version)}
    ${isDelete && about !== undefined && html`<p>${sentence(about)}</p>`}
    ${isDelete && html`<p>This cannot be undone.</p>`}
    ${fields(action, index, { refused, suggested: view.advice?.suggested ?? {} })}
    <div class="buttons">
      <button type="submit" ${isDelete && html`class="danger"`}>${method === 'PATCH' ? 'Save' : title}</button>
    </div>
  </form>`;
};

/** Nothing to fill in, and nothing that is lost by it: a button, to be pressed without looking for it. */
const isButton = ({ method, fields: { length } }: Action): boolean => method === 'POST' && length === 0;

type Forms = Record<'refused' | 'buttons' | 'others', Markup[]>;

/**
 * The forms of a document, none where the reader has no session: the one that was refused, which is to be mended before
 * anything else, those that are a button alone, and the others. `isFirst` where there is nothing yet but what one of them makes.
 */
export const actionForms = (context: Context, isFirst: boolean): Forms => {
  const { document, view } = context;
  const { session } = view;
  const forms: Forms = { refused: [], buttons: [], others: [] };
  if (session === undefined) return forms;
  for (const [index, action] of shownActions(document).entries()) {
    const isRefused = refusalOf(view, action) !== undefined;
    const isOpen = isRefused || (isFirst && action.method === 'POST');
    const markup = form(action, index, context, session);
    if (isButton(action)) forms.buttons.push(markup);
    else
      forms[isRefused ? 'refused' : 'others'].push(
        html`<details class="card" ${isOpen && html`open`}>
          <summary>${action.title}</summary>
          ${markup}
        </details>`,
      );
  }
  return forms;
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
