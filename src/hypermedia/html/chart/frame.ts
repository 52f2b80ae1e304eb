/**
 * What all charts have in common. They are drawn by the server: no script, and no style but the sheet's classes, which is all
 * that the policy allows. The drawing is stretched to its place and the words stand beside it, so they are as large on a phone
 * as anywhere.
 */
import { html, type Markup } from '../../markup.ts';

export const WIDTH = 600;
export const HEIGHT = 100;

/** Of a drawing, in units of its own: a tenth is finer than any screen. */
export const rounded = (value: number): number => Math.round(value * 10) / 10;

/** Where a share of the height (0 at the bottom, 1 at the top) lies. */
export const heightOf = (share: number): number => rounded(HEIGHT * (1 - share));

type Column = { name: string; isNumber: boolean };

export type Framed = {
  /** Of this drawing alone, in all of its page. */
  id: string;
  title: string;
  /** What it says, for those who do not see it and those who want the number. */
  summary: string;
  /** Beside the lines across, the lowest first. */
  ticks: readonly string[];
  /** Below it. */
  axis: Markup;
  drawing: Markup;
  /** What means what, where there is more than one thing. */
  keys?: Markup;
  /** The numbers themselves, the latest first. */
  columns: readonly Column[];
  rows: readonly (readonly (string | Markup)[])[];
};

const acrossOf = (count: number): string =>
  Array.from({ length: count }, (_, n) => `M0 ${rounded((HEIGHT * n) / (count - 1))}H${WIDTH}`).join('');

const numbers = ({ title, columns, rows }: Framed): Markup => {
  const classOf = (n: number) => columns[n]?.isNumber === true && html` class="number"`;
  return html`<details class="fold">
    <summary>The numbers</summary>
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
};

export const figure = (framed: Framed): Markup => {
  const { id, title, summary, ticks, axis, drawing, keys } = framed;
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
        <path class="across" d="${acrossOf(ticks.length)}" />
        ${drawing}
      </svg>
      <div class="axis" aria-hidden="true">${axis}</div>
    </div>
    ${numbers(framed)}
  </figure>`;
};
