/** Renders one field of a form with label, hint and errors. */
import type { Fault } from '#core/problem.ts';
import type { Field } from '../document.ts';
import { html, type Markup, kept } from '../markup.ts';
import { labelOf, phraseOf } from './words.ts';
import { isTrue } from './property-values.ts';

// Renders the control of a field by its kind. Controls accept everything that the server accepts: `maxlength` counts
// UTF-16 units instead of code points and would silently cut a pasted text, so it is not used; a url is a text.

type ControlOptions = {
  id: string;
  field: Field;
  values: readonly string[];
  /** The ids of the describing elements, separated by blanks. */
  described: string;
  isFaulty: boolean;
  /** Whether the form creates a resource. */
  isNew: boolean;
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
const textarea = (options: ControlOptions, text: string, rows: number): Markup =>
  html`<textarea ${attributes(options)} rows="${rows}" spellcheck="false">${'\n'}${kept(text)}</textarea>`;

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
  if (isLong || text.includes('\n') || text.includes('\r'))
    return textarea(options, text, field.kind === 'json' || field.kind === 'code' ? 5 : 3);
  const mode = field.kind === 'url' ? html`type="text" inputmode="url" spellcheck="false"` : html`type="text"`;
  return inputOf(options, mode, text, minLength(field));
}

/** Renders the control of a field, unless it is a list of checkboxes. */
function control(options: ControlOptions): Markup {
  const { field } = options;
  const { kind, choices } = field;
  if (kind === 'secret') return secretInput(options);
  if (field.isMultiple) return textarea(options, options.values.join('\n'), 5);
  if (choices !== undefined)
    return select(
      options,
      choices.map((choice) => [choice, phraseOf(choice)]),
    );
  if (kind === 'boolean') return yesOrNo(options);
  if (kind === 'number' || kind === 'count') return numberInput(options);
  const isLong = kind === 'json' || kind === 'code' || (kind === 'text' && (field.maxLength ?? 0) > LINE_CHARACTERS);
  return textInput(options, isLong);
}

/**
 * Renders one checkbox per choice. Ticked ones come first, in their order, so that an unchanged form sends the same
 * list.
 */
function checkboxes({ field, values, isFaulty }: ControlOptions): Markup {
  const ticked = new Set(values.filter((value) => value !== ''));
  const all = new Set([...ticked, ...(field.choices ?? [])]);
  return html`${[...all].map(
    (choice) =>
      html`<label class="choice">
        <input
          type="checkbox"
          name="${field.name}[]"
          value="${choice}"
          ${ticked.has(choice) && html`checked`}
          ${isFaulty && html`aria-invalid="true"`}
        />
        <span>${phraseOf(choice)}</span>
      </label>`,
  )}`;
}

/** `values` is the content of the field: one text, or the chosen values. `isLost`: a secret that was typed is not in it. */
export type FieldInput = {
  id: string;
  field: Field;
  values: readonly string[];
  faults: readonly Fault[];
  isNew: boolean;
  isLost: boolean;
};

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
function hintOf({ field, isNew, isLost }: FieldInput): string {
  const parts = [
    isLost && 'Enter it again: what is typed here is not sent back.',
    field.isRequired && 'Required.',
    field.hint !== undefined && sentence(field.hint),
    field.kind === 'secret' && !isNew && 'Leave empty to keep the current value.',
    isLineList(field) && 'One per line.',
    field.maxLength !== undefined && field.choices === undefined && `At most ${field.maxLength} characters.`,
    rangeOf(field),
  ];
  return parts.filter((part) => typeof part === 'string').join(' ');
}

const faultsOf = ({ id, faults }: FieldInput): Markup | false =>
  faults.length > 0 &&
  html`<div class="fault" id="${id}-fault">${faults.map(({ message }) => html`<p>${sentence(message)}</p>`)}</div>`;

export function formField(input: FieldInput): Markup {
  const { id, field, values, faults } = input;
  const hint = hintOf(input);
  const described = [...(hint === '' ? [] : [`${id}-hint`]), ...(faults.length === 0 ? [] : [`${id}-fault`])].join(' ');
  const label = labelOf(field.name);
  const about = html`${hint !== '' && html`<p class="soft" id="${id}-hint">${hint}</p>`} ${faultsOf(input)}`;
  const options = { id, field, values, described, isFaulty: faults.length > 0, isNew: input.isNew };
  if (field.isMultiple && !isLineList(field)) {
    return html`<fieldset id="${id}" ${described !== '' && html`aria-describedby="${described}"`}>
      <legend>${label}</legend>
      ${about}
      <div class="choices">${checkboxes(options)}</div>
    </fieldset>`;
  }
  return html`<div class="field">
    <label for="${id}">${label}</label>
    ${control(options)} ${about}
  </div>`;
}
