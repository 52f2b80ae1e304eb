/** Renders values with several lines or parts: lists, objects, code, JSON. */
import { harmless, isBlank } from '#core/text.ts';
import { isNumber } from '#core/exact-number.ts';
import { isScalar, type Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { labelOf } from './words.ts';

// Renders a list of objects with short members as a table, which is easier to read than JSON.

/** Larger tables are not readable. */
const ROWS_MAX = 100;
const COLUMNS_MAX = 10;
const CELL_CHARACTERS = 60;

type Row = { readonly [name: string]: Value };

/** All objects inherit `constructor`. */
const memberOf = (row: Row, name: string): Value | undefined => (Object.hasOwn(row, name) ? row[name] : undefined);

const textOf = (value: Value = ''): string => (value === null || !isScalar(value) ? '–' : String(value));

const fits = (value: Value): boolean =>
  typeof value === 'string' ? value.length <= CELL_CHARACTERS && !value.includes('\n') : isScalar(value);

const isRow = (value: Value): value is Row =>
  !isScalar(value) && !Array.isArray(value) && Object.values(value).every(fits);

/**
 * Returns the table with all members; undefined if a table cannot contain them. `label` is its name for screen readers.
 */
export function flatTable(list: readonly Value[], label: string): Markup | undefined {
  if (list.length > ROWS_MAX || !list.every(isRow)) return undefined;
  const names = [...new Set(list.flatMap((row) => Object.keys(row)))];
  if (names.length === 0 || names.length > COLUMNS_MAX || [label, ...names].some(isBlank)) return undefined;
  const numeric = names.map((name) =>
    list.every((row) => {
      const value = memberOf(row, name);
      return value === undefined || isNumber(value);
    }),
  );
  const head = (name: string, n: number): Markup =>
    numeric[n] === true
      ? html`<th scope="col" class="number">${labelOf(name)}</th>`
      : html`<th scope="col">${labelOf(name)}</th>`;
  const cell =
    (row: Row) =>
    (name: string, n: number): Markup =>
      numeric[n] === true
        ? html`<td class="number">${textOf(memberOf(row, name))}</td>`
        : html`<td>${textOf(memberOf(row, name))}</td>`;
  return html`<section class="table" tabindex="0" aria-label="${label}">
    <table>
      <thead>
        <tr>
          ${names.map(head)}
        </tr>
      </thead>
      <tbody>
        ${list.map(
          (row) =>
            html`<tr>
              ${names.map(cell(row))}
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

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
