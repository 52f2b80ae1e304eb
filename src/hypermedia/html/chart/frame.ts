/**
 * The frame of all charts: title, axes, drawing and data table. Charts are static SVG with classes of the style sheet,
 * because the Content-Security-Policy permits nothing else. The drawing is stretched to its box and labels are HTML
 * beside it, so they have the same size on a phone.
 */
import { html, type Markup } from '../../markup.ts';

export const WIDTH = 600;
export const HEIGHT = 100;

/** Rounds a coordinate to a tenth of a unit, which is finer than any screen. */
export function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Returns the y coordinate of a share of the height (0 at the bottom, 1 at the top). */
export function heightOf(share: number): number {
  return rounded(HEIGHT * (1 - share));
}

type Column = { name: string; isNumber: boolean };

export type Figure = {
  /** Unique in the page. */
  id: string;
  title: string;
  /** A summary in text, also for screen readers. */
  summary: string;
  /** Labels of the grid lines, lowest first. */
  ticks: readonly string[];
  /** The labels of the x axis. */
  axis: Markup;
  drawing: Markup;
  /** The legend of charts with several series. */
  keys?: Markup;
  /** The data table, latest row first. */
  columns: readonly Column[];
  rows: readonly (readonly (string | Markup)[])[];
};

const gridLines = (count: number): string =>
  Array.from({ length: count }, (_, n) => `M0 ${rounded((HEIGHT * n) / (count - 1))}H${WIDTH}`).join('');

function dataTable({ title, columns, rows }: Figure): Markup {
  const classOf = (n: number) => columns[n]?.isNumber === true && html` class="number"`;
  return html`<details class="fold">
    <summary>Show data</summary>
    <section class="table" tabindex="0" aria-label="${title}">
      <table>
        <thead>
          <tr>
            ${columns.map(({ name }, n) => html`<th scope="col" ${classOf(n)}>${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (row) =>
              html`<tr>
                ${row.map((cell, n) => html`<td${classOf(n)}>${cell}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>
    </section>
  </details>`;
}

export function figure(options: Figure): Markup {
  const { id, title, summary, ticks, axis, drawing, keys } = options;
  return html`<figure class="chart">
    <figcaption><strong>${title}</strong> <span class="soft">${summary}</span>${keys}</figcaption>
    <div class="plot">
      <div class="axis up" aria-hidden="true">${ticks.toReversed().map((tick) => html`<span>${tick}</span>`)}</div>
      <svg
        role="img"
        aria-labelledby="${id}-title ${id}-desc"
        viewBox="0 0 ${WIDTH} ${HEIGHT}"
        preserveAspectRatio="none"
      >
        <title id="${id}-title">${title}</title>
        <desc id="${id}-desc">${summary}</desc>
        <path class="across" d="${gridLines(ticks.length)}" />
        ${drawing}
      </svg>
      <div class="axis" aria-hidden="true">${axis}</div>
    </div>
    ${dataTable(options)}
  </figure>`;
}
