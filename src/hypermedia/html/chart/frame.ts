/**
 * The frame of all charts: title, axes, drawing and data table. Charts are static SVG with classes of the style sheet,
 * because the Content-Security-Policy permits nothing else. The drawing is stretched to its box and labels are HTML
 * beside it, so they have the same size on a phone.
 */
import { html, type Markup } from '../../markup.ts';
import { isCurrency, roundedMoney } from '../money.ts';

// Short texts of amounts, numbers and days for charts.

/** Returns `€1.25K`; from 10¹⁵ in scientific notation: `1.2E18`. */
export function briefAmount(value: number, currency: string): string {
  return new Intl.NumberFormat('en', {
    ...(isCurrency(currency) && { style: 'currency', currency }),
    notation: Math.abs(value) < 1e15 ? 'compact' : 'scientific',
    maximumSignificantDigits: 3,
  }).format(value);
}

/** Returns an amount with the decimals of its currency: a yearly price divided by months has millionths. */
export function amount(value: number, currency: string): string {
  return Math.abs(value) < 1e15 ? roundedMoney(value, currency) : briefAmount(value, currency);
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** Returns `19 Nov 2026`, as in table cells. */
export function shortDay(written: string): string {
  const [year = '', month, day] = written.split('-');
  return `${Number(day)} ${MONTHS[Number(month) - 1] ?? ''} ${year}`;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const brief = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** Returns `12,500`. */
export function wholeNumber(value = 0): string {
  return whole.format(value);
}

/** Returns `12.5K`. */
export function briefNumber(value: number): string {
  return brief.format(value);
}

// Scales of chart axes.

/** The values of the grid lines, ascending and equidistant. */
type Scale = { ticks: readonly number[]; shareOf: (value: number) => number };

const STEPS = 3;

/** Returns the smallest round step, 1, 2, 2.5 or 5 times a power of ten, that is at least `least`. */
function roundStep(least: number, leastStep: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  // Integers have no half: 2.5 attempts are no step, 25 are.
  const factors = leastStep === 1 && power === 1 ? [1, 2, 5] : [1, 2, 2.5, 5];
  const factor = factors.find((candidate) => candidate * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/**
 * Returns a scale that includes zero, so that heights are proportional to values; zeros alone get one step. `leastStep`
 * is 1 for integers.
 */
export function scaleOf(values: readonly number[], leastStep = 0): Scale {
  const low = values.reduce((least, value) => Math.min(least, value), 0);
  const high = values.reduce((most, value) => Math.max(most, value), 0);
  const span = high - low;
  // The span is not representable: all values are drawn at the bottom.
  if (!Number.isFinite(span)) return { ticks: [0, 1], shareOf: () => 0 };
  const step = span > 0 ? Math.max(roundStep(span / STEPS, leastStep), leastStep) : 1;
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  // Computes it from the index; repeated addition would give 0.30000000000000004.
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
  return { ticks, shareOf: (value) => (value - first * step) / ((last - first) * step) };
}

const DAY_MS = 86_400_000;
export function dayNumberOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / DAY_MS;
}
export function dayOfNumber(number: number): string {
  return new Date(number * DAY_MS).toISOString().slice(0, 10);
}

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
