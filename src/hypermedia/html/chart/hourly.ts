/** Charts per hour: bars of successes and failures, and lines of durations. Colour is never the only distinction. */
import type { Bars, Lines, Measured } from '../../chart.ts';
import { html, type Markup } from '../../markup.ts';
import { inSentence } from '../words.ts';
import { figure, HEIGHT, heightOf, rounded, WIDTH } from './frame.ts';
import { scaleOf } from './scale.ts';
import { briefNumber, wholeNumber } from './words.ts';

/** The share of an hour's width on either side of its bar. */
const GAP = 0.14;

const slotWidth = (hours: readonly string[]): number => WIDTH / hours.length;

/** Returns the path of the bars, one span per hour; equal ends draw nothing. */
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

/** Returns tooltips with the values of each hour. */
function tooltips(hours: readonly string[], textOf: (n: number) => string): Markup {
  const slot = slotWidth(hours);
  return html`${hours.map(
    (hour, n) =>
      html`<rect class="hint" x="${rounded(n * slot)}" width="${rounded(slot)}" height="${HEIGHT}">
        <title>${hour}: ${textOf(n)}</title>
      </rect>`,
  )}`;
}

function hourAxis(hours: readonly string[]): Markup {
  const middle = hours[Math.floor(hours.length / 2)];
  return html`<span>${hours[0]}</span><span class="middle">${middle}</span><span>${hours.at(-1)}</span>`;
}

/** Hatches the bars of failures, which differ by more than their colour. */
const hatching = (id: string): Markup =>
  html`<defs>
    <pattern id="${id}-hatch" width="6" height="6" patternUnits="userSpaceOnUse">
      <path class="hatch" d="M0 6L6 0" />
    </pattern>
  </defs>`;

const legendEntry = (drawing: Markup, name: string): Markup =>
  html`<span class="key"><svg aria-hidden="true" viewBox="0 0 24 12">${drawing}</svg>${name}</span>`;

const BOX = 'M2 1h20v10h-20z';
const STROKE = 'M1 6h22';

const hourColumn = { name: 'From', isNumber: false };

export function barsFigure({ title, summary, hours, good, bad }: Bars, id: string): Markup {
  const totals = hours.map((_, n) => (good.counts[n] ?? 0) + (bad.counts[n] ?? 0));
  const { ticks, shareOf } = scaleOf(totals, 1);
  const below = good.counts.map((count) => [0, count] as const);
  const onTop = totals.map((sum, n) => [good.counts[n] ?? 0, sum] as const);
  const textOf = (n: number) =>
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
      ${tooltips(hours, textOf)}`,
    keys: html`<span class="keys"
      >${legendEntry(html`<path class="bar" d="${BOX}" />`, good.name)}
      ${legendEntry(
        html`<path class="bar bad" d="${BOX}" /><path class="hatched" fill="url(#${id}-hatch)" d="${BOX}" />`,
        `${bad.name}, on top`,
      )}</span
    >`,
    columns: [hourColumn, { name: good.name, isNumber: true }, { name: bad.name, isNumber: true }],
    rows: hours.map((hour, n) => [hour, wholeNumber(good.counts[n]), wholeNumber(bad.counts[n])]).toReversed(),
  });
}

/**
 * Returns a line through the middle of each hour with gaps for missing values. A value between two gaps is a dash as
 * wide as its hour, because a dot would be invisible.
 */
export function brokenLine(
  values: readonly (number | null)[],
  shareOf: (value: number) => number,
  width: number,
): string {
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
}

export function linesFigure({ title, summary, hours, unit, main, beside }: Lines, id: string): Markup {
  const known = [...main.values, ...beside.values].filter((value) => value !== null);
  const { ticks, shareOf } = scaleOf(known);
  const valueText = ({ values }: Measured, n: number): string => {
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
      ${tooltips(hours, (n) => `${inSentence(main.name)} ${valueText(main, n)}, ${inSentence(beside.name)} ${valueText(beside, n)}`)}`,
    keys: html`<span class="keys"
      >${legendEntry(html`<path class="curve" d="${STROKE}" />`, main.name)}
      ${legendEntry(html`<path class="curve beside" d="${STROKE}" />`, beside.name)}</span
    >`,
    columns: [hourColumn, { name: main.name, isNumber: true }, { name: beside.name, isNumber: true }],
    rows: hours.map((hour, n) => [hour, valueText(main, n), valueText(beside, n)]).toReversed(),
  });
}
