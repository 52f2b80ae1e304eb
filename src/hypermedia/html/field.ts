/** Renders one field of a form with label, hint and errors. */
import type { Field } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import type { Fault } from '#core/problem.ts';
import { checkboxes, control } from './control.ts';
import { labelOf } from './words.ts';

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
