/** One field of a form, with its label, its hint and what is wrong with it. */
import type { Field } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import type { Fault } from '#core/problem.ts';
import { checkboxes, control } from './control.ts';
import { labelOf } from './words.ts';

/** `values` is what stands in the field: one text, or those that are chosen. */
export type Filled = { id: string; field: Field; values: readonly string[]; faults: readonly Fault[]; isNew: boolean };

/** As a sentence: most messages of ours end without a full stop. */
export const sentence = (text: string): string => (/[.!?…]$/.test(text) ? text : `${text}.`);

const linesWanted = ({ isMultiple, choices }: Field): boolean => isMultiple && choices === undefined;

const rangeOf = ({ kind, minimum, maximum }: Field): string | undefined => {
  if (kind !== 'number' && kind !== 'count') return undefined;
  if (minimum !== undefined && maximum !== undefined) return `From ${minimum} to ${maximum}.`;
  if (maximum !== undefined) return `At most ${maximum}.`;
  return minimum === undefined ? undefined : `At least ${minimum}.`;
};

/** Everything to know before one types: the fault that would come says no more than this. */
const hintOf = ({ field, isNew }: Filled): string => {
  const parts = [
    field.isRequired && 'Required.',
    field.hint !== undefined && sentence(field.hint),
    field.kind === 'secret' && !isNew && 'Leave empty to keep what is there.',
    linesWanted(field) && 'One a line.',
    field.maxLength !== undefined && field.choices === undefined && `At most ${field.maxLength} characters.`,
    rangeOf(field),
  ];
  return parts.filter((part) => typeof part === 'string').join(' ');
};

const faultsOf = ({ id, faults }: Filled): Markup | false =>
  faults.length > 0 &&
  html`<div class="fault" id="${id}-fault">${faults.map(({ message }) => html`<p>${sentence(message)}</p>`)}</div>`;

export const formField = (filled: Filled): Markup => {
  const { id, field, values, faults } = filled;
  const hint = hintOf(filled);
  const described = [...(hint === '' ? [] : [`${id}-hint`]), ...(faults.length === 0 ? [] : [`${id}-fault`])].join(' ');
  const label = labelOf(field.name);
  const about = html`${hint !== '' && html`<p class="soft" id="${id}-hint">${hint}</p>`} ${faultsOf(filled)}`;
  const place = { id, field, values, described, isFaulty: faults.length > 0, isNew: filled.isNew };
  if (field.isMultiple && !linesWanted(field)) {
    return html`<fieldset id="${id}" ${described !== '' && html`aria-describedby="${described}"`}>
      <legend>${label}</legend>
      ${about}
      <div class="choices">${checkboxes(place)}</div>
    </fieldset>`;
  }
  return html`<div class="field">
    <label for="${id}">${label}</label>
    ${control(place)} ${about}
  </div>`;
};
