/** Renders tables whose columns are known: each cell is given, and the first of a row may be its heading. */
import { html, type Markup } from '../markup.ts';

/** `kind`: a class of the style sheet for the cells of the column. */
export type Column = { name: string; kind?: 'number' | 'roomy' | 'number roomy' };
export type Cell = Markup | string | number | false;

type Below = { of: string; content: Markup };
type TableOptions = { hasRowHeadings?: boolean; isCards?: boolean; below?: readonly (Below | undefined)[] };

const SCOPE = html` scope="col"`;
const PARTED = html` class="parted"`;

const folded = ({ of, content }: Below, columns: number): Markup =>
  html`<tr>
    <td colspan="${columns}">
      <details class="fold">
        <summary>Details<span class="unseen"> of ${of}</span></summary>
        ${content}
      </details>
    </td>
  </tr>`;

/**
 * `label` names the region for screen readers. `isCards`: on a phone each row is a card, with the name of its column before each value.
 * `below`: the content of a folded row below each one, and the name of the row it belongs to; undefined for rows without it.
 */
export function dataTable(
  label: string,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { hasRowHeadings = false, isCards = false, below = [] }: TableOptions = {},
): Markup {
  const classes = columns.map(({ kind }) => kind !== undefined && html` class="${kind}"`);
  const attributes = columns.map(({ name }, at) => html`${classes[at]}${isCards && html` data-label="${name}"`}`);
  const cell = (content: Cell, at: number): Markup =>
    at === 0 && hasRowHeadings ? html`<th scope="row">${content}</th>` : html`<td${attributes[at]}>${content}</td>`;
  return html`<section class="${isCards ? 'table cards' : 'table'}" tabindex="0" aria-label="${label}">
    <table>
      <thead>
        <tr>
          ${columns.map(({ name }, at) => html`<th${SCOPE}${classes[at]}>${name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((cells, at) => [
          html`<tr${below[at] && PARTED}>
            ${cells.map(cell)}
          </tr>`,
          below[at] && folded(below[at], columns.length),
        ])}
      </tbody>
    </table>
  </section>`;
}
