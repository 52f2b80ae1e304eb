/** Renders values with several lines or parts: lists, objects, code, JSON. */
import { isScalar, type Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { flatTable } from './flat.ts';
import { harmless } from '#core/legible.ts';

const INLINE_CHARACTERS = 120;
/** Longer texts are folded: the body of a response may have 16 KiB. */
const OPEN_CHARACTERS = 1_200;
const OPEN_LINES = 16;

const none = html`<span class="soft">None</span>`;

// The line break after <pre> is not part of its text; without it, a leading line break in the text would be lost.
const block = (text: string): Markup => html`<pre class="copyable">${'\n'}${text}</pre>`;

/** Renders code in full, where the reader has unfolded it. */
export function shownCode(code: string): Markup {
  return block(harmless(code));
}

/** Renders code: inline if it is short, else in a block, folded if it is long. */
export function codeBlock(code: string): Markup {
  const text = harmless(code);
  const count = text.split('\n').length;
  if (count === 1 && text.length <= INLINE_CHARACTERS) return html`<code>${text}</code>`;
  if (count <= OPEN_LINES && text.length <= OPEN_CHARACTERS) return block(text);
  const size = count === 1 ? `${text.length} characters` : `${count} lines`;
  return html`<details class="fold">
    <summary>Show all ${size}</summary>
    ${block(text)}
  </details>`;
}

/** Returns any value as one text. */
export function plainText(value: Value): string {
  return isScalar(value) ? String(value) : JSON.stringify(value);
}

const shownScalar = (value: Value): string => (value === null ? '–' : harmless(plainText(value)));

const isList = (value: Value): value is readonly Value[] => Array.isArray(value);

/** Renders a value as a list of words, names with values, a table, or else JSON. `label` names it. */
export function shownJson(value: Value, label: string): Markup {
  if (isList(value)) {
    if (value.length === 0) return none;
    if (value.every(isScalar)) {
      return html`<ul class="values">
        ${value.map((item) => html`<li>${shownScalar(item)}</li>`)}
      </ul>`;
    }
    const table = flatTable(value, label);
    if (table !== undefined) return table;
  } else if (!isScalar(value)) {
    const members = Object.entries(value);
    if (members.length === 0) return none;
    if (members.every(([, member]) => isScalar(member))) {
      return html`<dl class="values">
        ${members.map(
          ([name, member]) =>
            html`<dt>${name}</dt>
              <dd>${shownScalar(member)}</dd>`,
        )}
      </dl>`;
    }
  }
  return codeBlock(JSON.stringify(value, null, 2));
}
