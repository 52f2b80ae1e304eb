/** Renders actions as forms, folded up unless they were rejected. */
import type { Fault } from '#core/problem.ts';
import type { Action, Document, Field, Naming } from '../document.ts';
import { formValue } from '../form-value.ts';
import { html, type Markup } from '../markup.ts';
import type { Refused, View } from '../view.ts';
import { formField, sentence, type FieldInput } from './field.ts';
import { hrefOf } from './links.ts';
import { inSentence } from './words.ts';

export type Context = { document: Document; naming: Naming; view: View };
type FormFrame = {
  naming: Naming;
  session: NonNullable<View['session']>;
  version: Document['version'];
  values?: Readonly<Record<string, string>>;
};

/** PUT is not shown: a PATCH form has all fields, too. */
const isShown = ({ method }: Action): boolean => method !== 'PUT';

/** Returns the actions with deletion last. */
const shownActions = ({ actions = [] }: Document): readonly Action[] => [
  ...actions.filter((action) => isShown(action) && action.method !== 'DELETE'),
  ...actions.filter(({ method }) => method === 'DELETE'),
];

const idOf = (action: number, field: number): string => `form-${action}-${field}`;

const concerns = ({ field }: Fault, { name }: Field): boolean =>
  field !== undefined && (field === name || field.startsWith(`${name}.`));

const listOf = (value: string | readonly string[] | undefined): readonly string[] =>
  value === undefined ? [] : typeof value === 'string' ? [value] : value;

const refusalOf = ({ refused }: View, { name }: Action): Refused | undefined =>
  refused?.action === name ? refused : undefined;

type FormState = { refused: Refused | undefined; suggested: Readonly<Record<string, string>> };

/** The form of the keys that a creation form offers: the person may have copied it before the form was refused. */
const OFFERED = /^whsec_[A-Za-z0-9+/]{32}$/;

/**
 * Returns the values of a field: the input if the form was rejected, of secrets only a key of the offered form; else the current value
 * (of secrets only a generated one); else the suggested value. A rejected button has sent only some of the fields.
 */
function valuesOf(field: Field, isNew: boolean, { refused, suggested }: FormState): readonly string[] {
  if (field.kind === 'secret' && !(isNew && field.isGenerated === true)) return [];
  if (field.kind === 'secret' && refused !== undefined)
    return listOf(refused.values[field.name]).filter((one) => OFFERED.test(one));
  if (refused !== undefined && (field.isMultiple || Object.hasOwn(refused.values, field.name)))
    return listOf(Object.hasOwn(refused.values, field.name) ? refused.values[field.name] : undefined);
  if (isNew && field.value === undefined && Object.hasOwn(suggested, field.name)) return listOf(suggested[field.name]);
  return listOf(formValue(field.value));
}

const hidden = (name: string, value: string | number): Markup =>
  html`<input type="hidden" name="${name}" value="${value}" />`;

/** Renders the fields. Minor ones are folded below the others, unless one has a fault. */
function fields(action: Action, index: number, state: FormState): Markup {
  const { refused } = state;
  const isNew = action.method === 'POST';
  const all = action.fields.map((field, at): FieldInput => {
    const faults = refused?.faults.filter((fault) => concerns(fault, field)) ?? [];
    const values = valuesOf(field, isNew, state);
    const sent = listOf(refused?.values[field.name]);
    const isLost = field.kind === 'secret' && sent.some((one) => one !== '' && !values.includes(one));
    return { id: idOf(index, at), field, values, faults, isNew, isLost };
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
}

/**
 * Renders the form of an action around its content. `version` is that of the document which the action changes, `values` are
 * fields that the reader does not fill in.
 */
export function formAround(
  action: Action,
  { naming, session, version, values = {} }: FormFrame,
  content: Markup,
): Markup {
  const { method, href } = action;
  return html`<form method="post" action="${hrefOf(href, naming) ?? ''}" autocomplete="off">
    ${hidden('nonce', session.nonceOf(action))}
    ${method === 'POST' ? hidden('_key', session.onceKey) : hidden('_method', method)}
    ${action.name !== 'create' && version !== undefined && hidden('_version', version)}
    ${Object.entries(values).map(([name, value]) => hidden(name, value))} ${content}
  </form>`;
}

function form(
  action: Action,
  index: number,
  { document, naming, view }: Context,
  session: NonNullable<View['session']>,
): Markup {
  const { method, title, about } = action;
  const isDelete = method === 'DELETE';
  const refused = refusalOf(view, action);
  const version = refused?.version ?? document.version;
  return formAround(
    action,
    { naming, session, version },
    html`${isDelete && about !== undefined && html`<p>${sentence(about)}</p>`}
      ${isDelete && html`<p>This cannot be undone.</p>`}
      ${fields(action, index, { refused, suggested: view.advice?.suggested ?? {} })}
      <div class="buttons">
        <button type="submit" ${isDelete && html`class="danger"`}>${method === 'PATCH' ? 'Save' : title}</button>
      </div>`,
  );
}

/**
 * Renders the form of the action with this name, without a heading; undefined if the reader has no such action. `number` makes the
 * ids of its fields unique on a page with forms of several documents.
 */
export function actionForm(context: Context, name: string, number = 0): Markup | undefined {
  const { session } = context.view;
  const actions = shownActions(context.document);
  const index = actions.findIndex((action) => action.name === name);
  const action = actions[index];
  return session && action && form(action, index + number, context, session);
}

/** Returns whether the form is a button: nothing to fill in, and nothing is lost. */
const isButton = ({ method, fields: { length } }: Action): boolean => method === 'POST' && length === 0;

export type ShownForm = { action: Action; form: Markup; isRefused: boolean; isButton: boolean };

/** Returns the forms of the document's actions, none without a session. */
export function shownForms(context: Context): ShownForm[] {
  const { document, view } = context;
  const { session } = view;
  if (session === undefined) return [];
  return shownActions(document).map((action, index) => ({
    action,
    form: form(action, index, context, session),
    isRefused: refusalOf(view, action) !== undefined,
    isButton: isButton(action),
  }));
}

/**
 * Renders a form that sends these values of an action, and nothing to fill in; false without a session. The other properties stay:
 * lists are sent as they are, because a list that is not sent is empty.
 */
export function fixedForm(
  action: Action,
  { values, button }: { values: Readonly<Record<string, string>>; button: Markup },
  { document, naming, view: { session } }: Context,
): Markup | false {
  if (session === undefined) return false;
  const lists = action.fields.filter(({ name, isMultiple }) => isMultiple && !Object.hasOwn(values, name));
  return formAround(
    action,
    { naming, session, version: document.version, values },
    html`${lists.flatMap(({ name, value }) => listOf(formValue(value)).map((item) => hidden(`${name}[]`, item)))}
    ${button}`,
  );
}

type RenderedForms = Record<'refused' | 'buttons' | 'others', Markup[]>;

/**
 * Returns the forms of a document, none without a session: the rejected one first, buttons without fields, and the
 * others. `isFirst`: the collection is empty, so the form that creates an item is open.
 */
export function actionForms(context: Context, isFirst: boolean): RenderedForms {
  const forms: RenderedForms = { refused: [], buttons: [], others: [] };
  for (const { action, form: markup, isRefused, isButton: hasNoFields } of shownForms(context)) {
    const isOpen = isRefused || (isFirst && action.method === 'POST');
    if (hasNoFields) forms.buttons.push(markup);
    else
      forms[isRefused ? 'refused' : 'others'].push(
        html`<details class="card" ${isOpen && html`open`}>
          <summary>${action.title}</summary>
          ${markup}
        </details>`,
      );
  }
  return forms;
}

/** Returns the id of a fault's field; undefined if the form does not show it. */
function placeOf(fault: Fault, document: Document, refused: Refused): string | undefined {
  const actions = shownActions(document);
  const index = actions.findIndex(({ name }) => name === refused.action);
  const at = actions[index]?.fields.findIndex((field) => concerns(fault, field)) ?? -1;
  return at === -1 ? undefined : idOf(index, at);
}

/** Renders all faults of a rejected form, with links to their fields. */
export function refusedAlert({ document, view: { refused } }: Pick<Context, 'document' | 'view'>): Markup | false {
  if (refused === undefined) return false;
  const { faults } = refused;
  const entry = (fault: Fault): Markup => {
    const place = placeOf(fault, document, refused);
    const message = sentence(fault.message);
    return html`<li>${place === undefined ? message : html`<a href="#${place}">${message}</a>`}</li>`;
  };
  return html`<div class="alert" role="alert">
    <p>Not saved. ${faults.length === 1 ? '1 problem' : `${faults.length} problems`} to fix:</p>
    <ul>
      ${faults.map(entry)}
    </ul>
  </div>`;
}
