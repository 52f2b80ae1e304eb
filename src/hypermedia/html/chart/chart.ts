/**
 * A curve, drawn by the server: no script, and no style but the sheet's classes, which is all that the policy allows. The
 * drawing is stretched to its place and the words stand beside it, so they are as large on a phone as anywhere.
 */
import type { Chart, Charts } from '../../chart.ts';
import { html, type Markup } from '../../markup.ts';
import { dayNumberOf, dayOfNumber, scaleOf } from './scale.ts';
import { amount, briefAmount, shortDay } from './words.ts';

const WIDTH = 600;
const HEIGHT = 100;
const LABELLED_MIDDLE_DAYS = 30;

type Place = { x: number; y: number };

const rounded = (value: number): number => Math.round(value * 10) / 10;

/** A single day stands in the middle. */
const placesOf = ({ points }: Chart, shareOf: (value: number) => number): Place[] => {
  const days = points.map(({ day }) => dayNumberOf(day));
  const first = days[0] ?? 0;
  const span = (days.at(-1) ?? 0) - first;
  return points.map(({ value }, n) => ({
    x: rounded(span === 0 ? WIDTH / 2 : (((days[n] ?? 0) - first) / span) * WIDTH),
    y: rounded(HEIGHT * (1 - shareOf(value))),
  }));
};

const pathOf = (places: readonly Place[]): string => places.map(({ x, y }) => `${x} ${y}`).join('L');

const acrossOf = (count: number): string =>
  Array.from({ length: count }, (_, n) => `M0 ${rounded((HEIGHT * n) / (count - 1))}H${WIDTH}`).join('');

type Words = { id: string; title: string; summary: string };

const drawing = (chart: Chart, { id, title, summary }: Words): Markup => {
  const { ticks, shareOf } = scaleOf(chart.points.map(({ value }) => value));
  const places = placesOf(chart, shareOf);
  const [first, last] = [places[0], places.at(-1)];
  if (first === undefined || last === undefined) return html``;
  const line = `M${pathOf(places)}`;
  const ground = rounded(HEIGHT * (1 - shareOf(0)));
  return html`<svg
    role="img"
    aria-labelledby="${id}-title ${id}-desc"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    preserveAspectRatio="none"
  >
    <title id="${id}-title">${title}</title>
    <desc id="${id}-desc">${summary}</desc>
    <path class="across" d="${acrossOf(ticks.length)}" />
    <path class="area" d="${line}V${ground}H${first.x}Z" />
    <path class="curve" d="${line}" />
    <path class="curve dot" d="M${last.x} ${last.y}h0" />
  </svg>`;
};

/** What the curve says, for those who do not see it and those who want the number. */
const summaryOf = ({ points, currency }: Chart): string => {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return '';
  const now = `${amount(last.value, currency)} on ${shortDay(last.day)}`;
  if (points.length === 1) return now;
  const change = last.value - first.value;
  const since = `on ${shortDay(first.day)}`;
  if (change === 0) return `${now}, as much as ${since}`;
  // The difference of two sums of money has no digits that neither of them has.
  const much = amount(Number(Math.abs(change).toFixed(6)), currency);
  return `${now}, ${much} ${change > 0 ? 'more' : 'less'} than ${since}`;
};

const daysOf = ({ points }: Chart): Markup => {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || first === last)
    return html`<span>${shortDay(last?.day ?? '')}</span>`;
  const span = dayNumberOf(last.day) - dayNumberOf(first.day);
  // Between few days a label would stand beside its day.
  const middle = span >= LABELLED_MIDDLE_DAYS && dayOfNumber(dayNumberOf(first.day) + Math.round(span / 2));
  return html`<span>${shortDay(first.day)}</span>${
      middle !== false && html`<span class="middle">${shortDay(middle)}</span>`
    }<span>${shortDay(last.day)}</span>`;
};

const numbers = ({ title, points, currency }: Chart): Markup =>
  html`<details class="fold">
    <summary>The numbers</summary>
    <section class="table" tabindex="0" aria-label="${title}">
      <table>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col" class="number">Amount</th>
          </tr>
        </thead>
        <tbody>
          ${points.toReversed().map(
            ({ day, value }) =>
              html`<tr>
                <td><time datetime="${day}">${shortDay(day)}</time></td>
                <td class="number">${amount(value, currency)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </section>
  </details>`;

const figure = (chart: Chart, n: number): Markup => {
  const { ticks } = scaleOf(chart.points.map(({ value }) => value));
  const summary = summaryOf(chart);
  return html`<figure class="chart">
    <figcaption><strong>${chart.title}</strong> <span class="soft">${summary}</span></figcaption>
    <div class="plot">
      <div class="axis up" aria-hidden="true">
        ${ticks.toReversed().map((tick) => html`<span>${briefAmount(tick, chart.currency)}</span>`)}
      </div>
      ${drawing(chart, { id: `chart-${n + 1}`, title: chart.title, summary })}
      <div class="axis" aria-hidden="true">${daysOf(chart)}</div>
    </div>
    ${numbers(chart)}
  </figure>`;
};

/** One beside the other; nothing where there is nothing to draw. */
export const chartsOf = ({ curves, note }: Charts = { curves: [] }): Markup | false => {
  const drawn = curves.filter(({ points }) => points.length > 0);
  return (
    drawn.length > 0 &&
    html`<div class="charts">${drawn.map(figure)}</div>
      ${note !== undefined && html`<p class="soft">${note}</p>`}`
  );
};
