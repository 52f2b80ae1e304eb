/** Renders a list of objects with short members as a table, which is easier to read than JSON. */
import { isBlank } from '#core/text.ts';
import { isNumber, isScalar, type Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { labelOf } from './words.ts';

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
