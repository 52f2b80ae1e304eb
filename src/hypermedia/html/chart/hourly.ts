/** Hours: bars of what went well and what did not, and lines of how long it took. Colour is never the only sign. */
import type { Bars, Lines, Measured } from '../../chart.ts';
import { html, type Markup } from '../../markup.ts';
import { inSentence } from '../words.ts';
import { figure, HEIGHT, heightOf, rounded, WIDTH } from './frame.ts';
import { scaleOf } from './scale.ts';
import { briefNumber, wholeNumber } from './words.ts';

/** Of the place of an hour, on either side of its bar. */
const GAP = 0.14;

const slotOf = (hours: readonly string[]): number => WIDTH / hours.length;

/** From so much to so much of each hour; nothing where both are the same. */
const barsPath = (
  spans: readonly (readonly [from: number, to: number])[],
  shareOf: (value: number) => number,
): string =>
  spans
    .map(([from, to], n) => {
      if (from === to) return '';
      const slot = WIDTH / spans.length;
      const [left, right] = [rounded((n + GAP) * slot), rounded((n + 1 - GAP) * slot)];
      return `M${left} ${heightOf(shareOf(from))}V${heightOf(shareOf(to))}H${right}V${heightOf(shareOf(from))}Z`;
    })
    .join('');

/** What stands there, under the pointer. */
const hints = (hours: readonly string[], words: (n: number) => string): Markup => {
  const slot = slotOf(hours);
  return html`${hours.map(
    (hour, n) =>
      html`<rect class="hint" x="${rounded(n * slot)}" width="${rounded(slot)}" height="${HEIGHT}">
        <title>${hour}: ${words(n)}</title>
      </rect>`,
  )}`;
};

const hourAxis = (hours: readonly string[]): Markup => {
  const middle = hours[Math.floor(hours.length / 2)];
  return html`<span>${hours[0]}</span><span class="middle">${middle}</span><span>${hours.at(-1)}</span>`;
};

/** What did not go well is told by more than its colour: by stripes, and by where it stands. */
const hatching = (id: string): Markup =>
  html`<defs>
    <pattern id="${id}-hatch" width="6" height="6" patternUnits="userSpaceOnUse">
      <path class="hatch" d="M0 6L6 0" />
    </pattern>
  </defs>`;

const key = (drawing: Markup, name: string): Markup =>
  html`<span class="key"><svg aria-hidden="true" viewBox="0 0 24 12">${drawing}</svg>${name}</span>`;

const BOX = 'M2 1h20v10h-20z';
const STROKE = 'M1 6h22';

const hourColumn = { name: 'Hour from', isNumber: false };

export const barsFigure = ({ title, summary, hours, good, bad }: Bars, id: string): Markup => {
  const all = hours.map((_, n) => (good.counts[n] ?? 0) + (bad.counts[n] ?? 0));
  const { ticks, shareOf } = scaleOf(all, 1);
  const below = good.counts.map((count) => [0, count] as const);
  const onTop = all.map((sum, n) => [good.counts[n] ?? 0, sum] as const);
  const words = (n: number) =>
    `${wholeNumber(good.counts[n])} ${inSentence(good.name)}, ${wholeNumber(bad.counts[n])} ${inSentence(bad.name)}`;
  return figure({
    id,
    title,
    summary,
    ticks: ticks.map(briefNumber),
    axis: hourAxis(hours),
    drawing: html`${hatching(id)}
      <path class="bar" d="${barsPath(below, shareOf)}" />
      <path class="bar bad" d="${barsPath(onTop, shareOf)}" />
      <path class="hatched" fill="url(#${id}-hatch)" d="${barsPath(onTop, shareOf)}" />
      ${hints(hours, words)}`,
    keys: html`<span class="keys"
      >${key(html`<path class="bar" d="${BOX}" />`, good.name)}
      ${key(
        html`<path class="bar bad" d="${BOX}" /><path class="hatched" fill="url(#${id}-hatch)" d="${BOX}" />`,
        `${bad.name}, on top`,
      )}</span
    >`,
    columns: [hourColumn, { name: good.name, isNumber: true }, { name: bad.name, isNumber: true }],
    rows: hours.map((hour, n) => [hour, wholeNumber(good.counts[n]), wholeNumber(bad.counts[n])]).toReversed(),
  });
};

/** In the middle of its hour; an hour without a value is a gap. One between two gaps is as wide as its hour: a dot is not seen. */
export const brokenLine = (
  values: readonly (number | null)[],
  shareOf: (value: number) => number,
  width: number,
): string => {
  const slot = width / values.length;
  return values
    .map((value, n) => {
      if (value === null) return '';
      const [middle, height] = [rounded((n + 0.5) * slot), heightOf(shareOf(value))];
      if ((values[n - 1] ?? null) !== null) return `L${middle} ${height}`;
      if ((values[n + 1] ?? null) !== null) return `M${middle} ${height}`;
      return `M${rounded(n * slot)} ${height}h${rounded(slot)}`;
    })
    .join('');
};

export const linesFigure = ({ title, summary, hours, unit, main, beside }: Lines, id: string): Markup => {
  const known = [...main.values, ...beside.values].filter((value) => value !== null);
  const { ticks, shareOf } = scaleOf(known);
  const told = ({ values }: Measured, n: number): string => {
    const value = values[n] ?? null;
    return value === null ? '–' : `${wholeNumber(value)} ${unit}`;
  };
  return figure({
    id,
    title,
    summary,
    ticks: ticks.map((tick) => `${briefNumber(tick)} ${unit}`),
    axis: hourAxis(hours),
    drawing: html`<path class="curve beside" d="${brokenLine(beside.values, shareOf, WIDTH)}" />
      <path class="curve" d="${brokenLine(main.values, shareOf, WIDTH)}" />
      ${hints(hours, (n) => `${inSentence(main.name)} ${told(main, n)}, ${inSentence(beside.name)} ${told(beside, n)}`)}`,
    keys: html`<span class="keys"
      >${key(html`<path class="curve" d="${STROKE}" />`, main.name)}
      ${key(html`<path class="curve beside" d="${STROKE}" />`, beside.name)}</span
    >`,
    columns: [hourColumn, { name: main.name, isNumber: true }, { name: beside.name, isNumber: true }],
    rows: hours.map((hour, n) => [hour, told(main, n), told(beside, n)]).toReversed(),
  });
};
