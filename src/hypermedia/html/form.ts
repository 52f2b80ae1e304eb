/** Renders actions as forms, folded up unless they were rejected. */
import type { Fault } from '#core/problem.ts';
import { isScalar, type Action, type Document, type Field, type Naming, type Value } from '../document.ts';
import { html, kept, type Markup } from '../markup.ts';
import type { Refused, Suggestion, View } from '../view.ts';
import { dateInput, shownDateOf } from '../shown-date.ts';
import { dataTable } from './data-table.ts';
import { hrefOf, linkTo } from './links.ts';
import { inSentence, labelled, labelOf, phraseOf } from './words.ts';
import { isTrue } from './property-values.ts';

export type Context = { document: Document; naming: Naming; view: View };
type FormFrame = {
  naming: Naming;
  session: NonNullable<View['session']>;
  version: Document['version'];
  values?: Readonly<Record<string, string>>;
  /** The form contains input that was not saved. */
  isUnsaved?: boolean;
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

type FormState = {
  refused: Refused | undefined;
  suggested: Readonly<Record<string, readonly Suggestion[]>>;
  timeZone: string;
};

/** Returns the values that the form of something new offers for a field. */
const suggestionsOf = (field: Field, isNew: boolean, { suggested }: FormState): readonly Suggestion[] =>
  isNew && field.value === undefined && Object.hasOwn(suggested, field.name) ? (suggested[field.name] ?? []) : [];

/** The form of the keys that a creation form offers: the person may have copied it before the form was refused. */
const OFFERED = /^whsec_[A-Za-z0-9+/]{32}$/;

/**
 * Returns the values of a field: the input if the form was rejected, of secrets only a key of the offered form; else the current value
 * (of secrets only a generated one); else the suggested value. A rejected button has sent only some of the fields.
 */
function valuesOf(field: Field, isNew: boolean, state: FormState): readonly string[] {
  const { refused } = state;
  if (field.kind === 'secret' && !(isNew && field.isGenerated === true)) return [];
  if (field.kind === 'secret' && refused !== undefined && Object.hasOwn(refused.values, field.name))
    return listOf(refused.values[field.name]).filter((one) => OFFERED.test(one));
  if (refused !== undefined && (field.isMultiple || Object.hasOwn(refused.values, field.name)))
    return listOf(Object.hasOwn(refused.values, field.name) ? refused.values[field.name] : undefined);
  const [suggestion] = suggestionsOf(field, isNew, state);
  return suggestion === undefined ? listOf(formValue(field.value)) : [suggestion.value];
}

/** The end of the name of a control whose value is another one than those that the form suggests. */
export const OTHER = '.other';

/** The name of the button that shows what a form would do. */
export const PREVIEW = '_preview';

const hidden = (name: string, value: string | number): Markup =>
  html`<input type="hidden" name="${name}" value="${value}" />`;

/** Renders the fields. Main ones come first; minor ones are folded below the others, unless one has a fault. */
function fields(action: Action, index: number, state: FormState): Markup {
  const { refused } = state;
  const isNew = action.method === 'POST';
  const all = action.fields.map((field, at): FieldInput => {
    const faults = refused?.faults.filter((fault) => concerns(fault, field)) ?? [];
    const values = valuesOf(field, isNew, state);
    const sent = listOf(refused?.values[field.name]);
    const isLost = field.kind === 'secret' && sent.some((one) => one !== '' && !values.includes(one));
    const suggestions = suggestionsOf(field, isNew, state);
    return { id: idOf(index, at), field, values, faults, isNew, isLost, suggestions, timeZone: state.timeZone };
  });
  const minor = all.filter(({ field }) => field.isMinor === true);
  const isOpen = minor.some(({ faults }) => faults.length > 0);
  const others = all.filter(({ field }) => field.isMain !== true && field.isMinor !== true);
  return html`${[...all.filter(({ field }) => field.isMain), ...others].map(formField)}
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
  { naming, session, version, values = {}, isUnsaved = false }: FormFrame,
  content: Markup,
): Markup {
  const { method } = action;
  const href = hrefOf(action.href, naming) ?? '';
  return html`<form method="post" action="${href}" autocomplete="off" ${isUnsaved && html`data-unsaved`}>
    ${hidden('nonce', session.nonceOf(action))}
    ${method === 'POST' ? hidden('_key', session.onceKey) : hidden('_method', method)}
    ${action.name !== 'create' && version !== undefined && hidden('_version', version)}
    ${Object.entries(values).map(([name, value]) => hidden(name, value))} ${content}
  </form>`;
}

/** Renders a value of a form as text. Neither a typed secret nor a stored one is shown. */
function versionOf({ kind, choices }: Field, values: readonly string[]): Markup {
  if (kind === 'secret') return html`<span class="soft">Not shown</span>`;
  const texts = values.filter((value) => value !== '');
  if (texts.length === 0) return html`<span class="soft">None</span>`;
  const shown = texts.map((text) =>
    kind === 'boolean' ? (isTrue(text) ? 'Yes' : 'No') : choices === undefined ? text : phraseOf(text),
  );
  return html`<span class="lines">${shown.join('\n')}</span>`;
}

/** Renders what was entered beside what is stored. */
const conflictTable = ({ conflict = [] }: Refused): Markup | false =>
  conflict.length > 0 &&
  dataTable(
    'Your version and the stored version',
    [{ name: 'Property' }, { name: 'Your version' }, { name: 'Stored version' }],
    conflict.map(({ field, typed, stored }) => [
      labelOf(field.name),
      versionOf(field, typed),
      versionOf(field, stored),
    ]),
    { hasRowHeadings: true },
  );

const previewButton = (label: string, isPreviewed: boolean): Markup =>
  html`<button type="submit" name="${PREVIEW}" value="1" ${isPreviewed && html`class="quiet"`}>${label}</button>`;

function form(
  action: Action,
  index: number,
  { document, naming, view }: Context,
  session: NonNullable<View['session']>,
): Markup {
  const { method, title, about, preview } = action;
  const isDelete = method === 'DELETE';
  const refused = refusalOf(view, action);
  const version = refused?.version ?? document.version;
  const { timeZone = 'UTC' } = document;
  const isPreviewed = refused?.preview !== undefined;
  const isConflict = refused?.conflict !== undefined;
  const label = method !== 'PATCH' ? title : isConflict ? 'Save your version' : 'Save';
  const here = hrefOf(linkTo(document, 'self')?.href ?? '', naming);
  const submit = html`<button type="submit" ${isDelete && html`class="danger"`}>${label}</button>`;
  return formAround(
    action,
    { naming, session, version, isUnsaved: refused !== undefined },
    html`${isDelete && about !== undefined && html`<p>${sentence(about)}</p>`}
      ${isDelete && html`<p>This cannot be undone.</p>`} ${refused && conflictTable(refused)}
      ${fields(action, index, { refused, suggested: view.advice?.suggested ?? {}, timeZone })}
      ${isPreviewed && html`<p class="good" role="status">${refused.preview}</p>`}
      <div class="buttons">
        ${(preview === undefined || isPreviewed) && submit}
        ${preview !== undefined && previewButton(preview, isPreviewed)}
        ${isConflict && here !== undefined && html`<a class="button quiet" href="${here}">Keep the stored version</a>`}
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
  if (refused === undefined || refused.preview !== undefined) return false;
  const { faults } = refused;
  const entry = (fault: Fault): Markup => {
    const place = placeOf(fault, document, refused);
    const message = messageOf(fault);
    return html`<li>${place === undefined ? message : html`<a href="#${place}">${message}</a>`}</li>`;
  };
  return html`<div class="alert" role="alert">
    <p>Not saved. ${faults.length === 1 ? '1 problem' : `${faults.length} problems`} to fix:</p>
    <ul>
      ${faults.map(entry)}
    </ul>
  </div>`;
}

// Renders the control of a field by its kind. Controls accept everything that the server accepts: `maxlength` counts
// UTF-16 units instead of code points and would silently cut a pasted text, so it is not used; a url is a text.

type ControlOptions = Pick<FieldInput, 'id' | 'field' | 'values' | 'isNew' | 'timeZone'> & {
  /** The ids of the describing elements, separated by blanks. */
  described: string;
  isFaulty: boolean;
};

const LINE_CHARACTERS = 255;

const attributes = ({ id, field, described, isFaulty }: ControlOptions): Markup =>
  html`id="${id}" name="${field.name}" ${field.isRequired && html`required`}
  ${described !== '' && html`aria-describedby="${described}"`} ${isFaulty && html`aria-invalid="true"`}`;

const option = (value: string, text: string, isSelected: boolean): Markup =>
  html`<option value="${value}" ${isSelected && html`selected`}>${text}</option>`;

/**
 * Renders a selection. It has an empty choice if the field is clearable or has no value, but not in a new resource with
 * a default, which has a choice of its own.
 */
function select(options: ControlOptions, choices: readonly (readonly [value: string, text: string])[]): Markup {
  const { field, values, isNew } = options;
  const [value = ''] = values;
  const hasDefault = isNew && field.value !== undefined;
  const mayBeEmpty = value === '' || (field.isClearable === true && !hasDefault);
  // A current value that is not (or no longer) a choice is kept.
  const isOther = value !== '' && !choices.some(([choice]) => choice === value);
  return html`<select ${attributes(options)}>
    ${mayBeEmpty && option('', field.isRequired ? 'Choose …' : 'None', value === '')}
    ${isOther && option(value, value, true)} ${choices.map(([choice, text]) => option(choice, text, choice === value))}
  </select>`;
}

function yesOrNo(options: ControlOptions): Markup {
  const [value = ''] = options.values;
  const isKnown = ['1', '0', 'true', 'false'].includes(value);
  const normalized = isKnown ? (isTrue(value) ? '1' : '0') : value;
  return select({ ...options, values: [normalized] }, [
    ['1', 'Yes'],
    ['0', 'No'],
  ]);
}

// The line break after <textarea> is not part of its text; without it, a leading line break in the text would be lost.
function textarea(options: ControlOptions, text: string): Markup {
  const { kind, isMultiple } = options.field;
  const isProse = !isMultiple && kind !== 'json' && kind !== 'code';
  const rest = isProse ? html`rows="3"` : html`rows="5" spellcheck="false"`;
  return html`<textarea ${attributes(options)} ${rest}>${'\n'}${kept(text)}</textarea>`;
}

const inputOf = (options: ControlOptions, type: Markup, value: string | undefined, rest?: Markup): Markup =>
  html`<input ${type} ${attributes(options)} ${value !== undefined && html`value="${value}"`} ${rest} />`;

const minLength = ({ minLength: min = 0 }: Field): Markup | undefined =>
  min > 1 ? html`minlength="${min}"` : undefined;

function numberInput(options: ControlOptions): Markup {
  const { minimum, maximum } = options.field;
  const [value = ''] = options.values;
  // A browser would discard non-numeric input of a number field.
  if (value !== '' && !/^-?(?:[0-9]+\.)?[0-9]+(?:[eE][+-]?[0-9]+)?$/.test(value)) {
    return inputOf(options, html`type="text" inputmode="decimal"`, value);
  }
  const range = html`${minimum !== undefined && html`min="${minimum}"`}
  ${maximum !== undefined && html`max="${maximum}"`}`;
  return inputOf(options, html`type="number" step="any"`, value, range);
}

/**
 * Renders a secret: neither stored values nor input of a rejected form are shown. `new-password`, because
 * browsers ignore `off` here and would fill in the password of this site.
 */
function secretInput(options: ControlOptions): Markup {
  const [value = ''] = options.values;
  if (value !== '') return inputOf(options, html`type="text" spellcheck="false"`, value);
  return inputOf(options, html`type="password" autocomplete="new-password"`, undefined);
}

function textInput(options: ControlOptions, isLong: boolean): Markup {
  const text = options.values.join('\n');
  const { field } = options;
  // A single-line field would drop line ends.
  if (isLong || text.includes('\n') || text.includes('\r')) return textarea(options, text);
  const mode = field.kind === 'url' ? html`type="text" inputmode="url" spellcheck="false"` : html`type="text"`;
  return inputOf(options, mode, text, minLength(field));
}

/** Renders the control of a field, unless it is a list of checkboxes. */
function control(options: ControlOptions): Markup {
  const { field } = options;
  const { kind, choices } = field;
  if (kind === 'secret') return secretInput(options);
  if (field.isMultiple) return textarea(options, options.values.join('\n'));
  if (choices !== undefined)
    return select(
      options,
      choices.map((choice) => [choice, phraseOf(choice)]),
    );
  if (kind === 'boolean') return yesOrNo(options);
  if (kind === 'number' || kind === 'count') return numberInput(options);
  if (kind === 'date') return dateInput(options.values[0] ?? '', options.timeZone, attributes(options));
  const isLong = kind === 'json' || kind === 'code' || (kind === 'text' && (field.maxLength ?? 0) > LINE_CHARACTERS);
  return textInput(options, isLong);
}

/**
 * Renders one checkbox per choice. Ticked ones come first, in their order, so that an unchanged form sends the same
 * list. Events are folded by their resource: the script shows those of the resource that is chosen.
 */
function checkboxes({ field, values, isFaulty }: ControlOptions): Markup {
  const ticked = new Set(values.filter((value) => value !== ''));
  const all = new Set([...ticked, ...(field.choices ?? [])]);
  const box = (choice: string): Markup =>
    html`<label class="choice">
      <input
        type="checkbox"
        name="${field.name}[]"
        value="${choice}"
        ${ticked.has(choice) && html`checked`}
        ${isFaulty && html`aria-invalid="true"`}
      />
      <span>${phraseOf(choice)}</span>
    </label>`;
  const groups = Map.groupBy(all, (choice) => choice.split('/', 1)[0] ?? '');
  if (groups.size <= 1 || groups.size === all.size) return html`${[...all].map(box)}`;
  return html`${[...groups].map(
    ([resource, choices]) =>
      html`<details class="fold" data-of="${resource}" ${choices.some((choice) => ticked.has(choice)) && html`open`}>
        <summary>${phraseOf(resource)}</summary>
        ${choices.map(box)}
      </details>`,
  )}`;
}

/**
 * `values` is the content of the field: one text, or the chosen values. `isNew`: the form creates a resource. `isLost`: a secret that was
 * typed is not in the values.
 */
type FieldInput = {
  id: string;
  field: Field;
  values: readonly string[];
  faults: readonly Fault[];
  isNew: boolean;
  isLost: boolean;
  suggestions: readonly Suggestion[];
  timeZone: string;
};

/** Returns the message of a fault as a form shows it. */
const messageOf = ({ message, field }: Fault): string => sentence(labelled(message, field));

/** Returns the text with a full stop, which most messages lack. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

const isLineList = ({ isMultiple, choices }: Field): boolean => isMultiple && choices === undefined;

function rangeOf({ kind, minimum, maximum }: Field): string | undefined {
  if (kind !== 'number' && kind !== 'count') return undefined;
  if (minimum !== undefined && maximum !== undefined) return `From ${minimum} to ${maximum}.`;
  if (maximum !== undefined) return `At most ${maximum}.`;
  return minimum === undefined ? undefined : `At least ${minimum}.`;
}

/** Returns the hint, which contains every constraint that validation reports. */
function hintOf({ field, isNew, isLost, timeZone }: FieldInput): string {
  const isDate = field.kind === 'date';
  const parts = [
    isLost && 'Enter it again: what is typed here is not sent back.',
    field.isRequired && 'Required.',
    field.hint !== undefined && sentence(field.hint),
    field.kind === 'secret' && !isNew && 'Leave empty to keep the current value.',
    isLineList(field) && 'One per line.',
    isDate && `In the time zone ${timeZone}.`,
    !isDate && field.maxLength !== undefined && field.choices === undefined && `At most ${field.maxLength} characters.`,
    rangeOf(field),
  ];
  return parts.filter((part) => typeof part === 'string').join(' ');
}

// Renders one field of a form with label, hint and errors.

const faultsOf = ({ id, faults }: FieldInput): Markup | false =>
  faults.length > 0 &&
  html`<div class="fault" id="${id}-fault">${faults.map((fault) => html`<p>${messageOf(fault)}</p>`)}</div>`;

/**
 * Renders the choice of a suggested value, and the control of another one. The form sends both, of which the first that is not empty
 * counts; the style sheet hides the control unless it is chosen.
 */
function choiceOfSuggestions(options: ControlOptions, suggestions: readonly Suggestion[]): Markup {
  const { id, field } = options;
  const chosen = options.values.find((one) => one !== '') ?? '';
  const isOther = !suggestions.some(({ value }) => value === chosen);
  const choice = ({ label, value }: Suggestion, isChosen: boolean): Markup => {
    const date = shownDateOf(value);
    return html`<label class="choice">
      <input type="radio" name="${field.name}" value="${value}" ${isChosen && html`checked`} />
      <span>${label}${date !== undefined && html`<span class="soft">${date}</span>`}</span>
    </label>`;
  };
  const other = { ...field, name: `${field.name}${OTHER}`, isRequired: false };
  const values = isOther ? [chosen] : [];
  return html`<div class="choices">
      ${suggestions.map((suggestion) => choice(suggestion, suggestion.value === chosen))}
      ${choice({ label: 'Another time', value: '' }, isOther)}
    </div>
    <div class="other">
      <label for="${id}-other">${labelOf(field.name)}</label>
      ${control({ ...options, id: `${id}-other`, field: other, values })}
    </div>`;
}

function formField(input: FieldInput): Markup {
  const { id, field, values, faults, suggestions, timeZone } = input;
  const hint = hintOf(input);
  const described = [...(hint === '' ? [] : [`${id}-hint`]), ...(faults.length === 0 ? [] : [`${id}-fault`])].join(' ');
  const label = labelOf(field.name);
  const about = html`${hint !== '' && html`<p class="soft" id="${id}-hint">${hint}</p>`} ${faultsOf(input)}`;
  const options = { id, field, values, described, isFaulty: faults.length > 0, isNew: input.isNew, timeZone };
  const isList = field.isMultiple && !isLineList(field);
  if (isList || suggestions.length > 0) {
    return html`<fieldset id="${id}" ${described !== '' && html`aria-describedby="${described}"`}>
      <legend>${label}</legend>
      ${about}
      ${isList ? html`<div class="choices">${checkboxes(options)}</div>` : choiceOfSuggestions(options, suggestions)}
    </fieldset>`;
  }
  return html`<div class="field">
    <label for="${id}">${label}</label>
    ${control(options)} ${about}
  </div>`;
}

// Values as forms contain them, and send them back unchanged.

const isTexts = (value: Value): value is { readonly [name: string]: string | null } =>
  !isScalar(value) &&
  !Array.isArray(value) &&
  Object.values(value).every((member) => typeof member === 'string' || member === null);

/**
 * Returns one text for a single field, a list for a field with several values. Booleans are `1` and `0`, null is the
 * empty text, an object of texts and nulls is lines of `Name: value` and `Name:`, and any other object its JSON.
 */
export function formValue(value: Value | undefined): string | readonly string[] {
  if (value === undefined || value === null) return '';
  if (Array.isArray(value)) return value.map((item: Value) => String(formValue(item)));
  if (typeof value === 'boolean') return value ? '1' : '0';
  if (isScalar(value)) return String(value);
  if (!isTexts(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, text]) => (text === null ? `${name}:` : `${name}: ${text}`))
    .join('\n');
}
