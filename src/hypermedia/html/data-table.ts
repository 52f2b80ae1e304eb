/** Renders tables whose columns are known: each cell is given, and the first of a row may be its heading. */
import { html, type Markup } from '../markup.ts';

/** `kind`: a class of the style sheet for the cells of the column. */
export type Column = { name: string; kind?: 'number' | 'roomy' | 'number roomy' };
export type Cell = Markup | string | number | false;

const SCOPE = html` scope="col"`;

/** `label` names the region for screen readers. `isCards`: on a phone each row is a card, with the name of its column before each value. */
export function dataTable(
  label: string,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { hasRowHeadings = false, isCards = false }: { hasRowHeadings?: boolean; isCards?: boolean } = {},
): Markup {
  const classOf = (column: Column | undefined): Markup | false =>
    column?.kind !== undefined && html` class="${column.kind}"`;
  const cell = (content: Cell, at: number): Markup => {
    if (at === 0 && hasRowHeadings) return html`<th scope="row">${content}</th>`;
    const name = isCards && html` data-label="${columns[at]?.name}"`;
    return html`<td${classOf(columns[at])}${name}>${content}</td>`;
  };
  return html`<section class="${isCards ? 'table cards' : 'table'}" tabindex="0" aria-label="${label}">
    <table>
      <thead>
        <tr>
          ${columns.map((column) => html`<th${SCOPE}${classOf(column)}>${column.name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (cells) =>
            html`<tr>
              ${cells.map(cell)}
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}
