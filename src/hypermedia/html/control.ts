/**
 * What is filled in, by the kind of a field. What the server takes, no control refuses or changes: lengths are code points
 * there and UTF-16 units in HTML, so there is no `maxlength`, which would cut a pasted text without a word; a url is text.
 */
import type { Field } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { isTrue } from './values.ts';
import { phraseOf } from './words.ts';

export type Place = {
  id: string;
  field: Field;
  values: readonly string[];
  /** The ids of what describes it, parted by blanks. */
  described: string;
  isFaulty: boolean;
  /** Whether the form makes something, and does not change what is there. */
  isNew: boolean;
};

const LINE_CHARACTERS = 255;

const attributes = ({ id, field, described, isFaulty }: Place): Markup =>
  html`id="${id}" name="${field.name}" ${field.isRequired && html`required`}
  ${described !== '' && html`aria-describedby="${described}"`} ${isFaulty && html`aria-invalid="true"`}`;

const option = (value: string, text: string, isSelected: boolean): Markup =>
  html`<option value="${value}" ${isSelected && html`selected`}>${text}</option>`;

/**
 * An empty choice stands there where nothing may be chosen, or nothing has been. Of something new not where it would be what the
 * form begins with: that is a choice by its own name.
 */
const select = (place: Place, choices: readonly (readonly [value: string, text: string])[]): Markup => {
  const { field, values, isNew } = place;
  const [value = ''] = values;
  const hasDefault = isNew && field.value !== undefined;
  const mayBeEmpty = value === '' || (field.isClearable === true && !hasDefault);
  // What stands there and is none of the choices (any more) is not changed by looking at it.
  const isOther = value !== '' && !choices.some(([choice]) => choice === value);
  return html`<select ${attributes(place)}>
    ${mayBeEmpty && option('', field.isRequired ? 'Choose …' : 'None', value === '')}
    ${isOther && option(value, value, true)} ${choices.map(([choice, text]) => option(choice, text, choice === value))}
  </select>`;
};

const yesOrNo = (place: Place): Markup => {
  const [value = ''] = place.values;
  const isKnown = ['1', '0', 'true', 'false'].includes(value);
  const normal = isKnown ? (isTrue(value) ? '1' : '0') : value;
  return select({ ...place, values: [normal] }, [
    ['1', 'Yes'],
    ['0', 'No'],
  ]);
};

// The line break after <textarea> is not part of its text; without it, one that was typed first would be lost.
const textarea = (place: Place, text: string, rows: number): Markup =>
  html`<textarea ${attributes(place)} rows="${rows}" spellcheck="false">${'\n'}${text}</textarea>`;

const input = (place: Place, type: Markup, value: string | undefined, rest?: Markup): Markup =>
  html`<input ${type} ${attributes(place)} ${value !== undefined && html`value="${value}"`} ${rest} />`;

const minLength = ({ minLength: min = 0 }: Field): Markup | undefined =>
  min > 1 ? html`minlength="${min}"` : undefined;

const numberInput = (place: Place): Markup => {
  const { minimum, maximum } = place.field;
  const [value = ''] = place.values;
  // A browser drops from such a field what is no number, and with it what somebody has typed.
  if (value !== '' && !/^-?(?:[0-9]+\.)?[0-9]+(?:[eE][+-]?[0-9]+)?$/.test(value)) {
    return input(place, html`type="text" inputmode="decimal"`, value);
  }
  const range = html`${minimum !== undefined && html`min="${minimum}"`}
  ${maximum !== undefined && html`max="${maximum}"`}`;
  return input(place, html`type="number" step="any"`, value, range);
};

/**
 * What was just typed stands in it again, but never what is stored. `new-password` and not `off`: browsers ignore `off` here
 * and would put in the password of this very site.
 */
const secretInput = (place: Place): Markup => {
  const [value = ''] = place.values;
  if (place.isNew && place.field.isGenerated === true) return input(place, html`type="text" spellcheck="false"`, value);
  return input(place, html`type="password" autocomplete="new-password"`, value === '' ? undefined : value);
};

const textInput = (place: Place, isLong: boolean): Markup => {
  const text = place.values.join('\n');
  const { field } = place;
  // A field of one line would drop the line ends.
  if (isLong || text.includes('\n') || text.includes('\r'))
    return textarea(place, text, field.kind === 'json' || field.kind === 'code' ? 5 : 3);
  const mode = field.kind === 'url' ? html`type="text" inputmode="url" spellcheck="false"` : html`type="text"`;
  return input(place, mode, text, minLength(field));
};

/** The control of a field that is not several boxes. */
export const control = (place: Place): Markup => {
  const { field } = place;
  const { kind, choices } = field;
  if (kind === 'secret') return secretInput(place);
  if (field.isMultiple) return textarea(place, place.values.join('\n'), 5);
  if (choices !== undefined)
    return select(
      place,
      choices.map((choice) => [choice, phraseOf(choice)]),
    );
  if (kind === 'boolean') return yesOrNo(place);
  if (kind === 'number' || kind === 'count') return numberInput(place);
  const isLong = kind === 'json' || kind === 'code' || (kind === 'text' && (field.maxLength ?? 0) > LINE_CHARACTERS);
  return textInput(place, isLong);
};

/** One box a choice. Those that are ticked come first and in their order, so that a form nobody touched says the same again. */
export const checkboxes = ({ field, values, isFaulty }: Place): Markup => {
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
};
