/** Renders the charts of a page side by side. */
import type { Charts, Curve, Bars, Lines, Measured } from '../../chart.ts';
import type { Property, Value } from '../../document.ts';
import { html, type Markup } from '../../markup.ts';
import { inSentence, labelOf } from '../words.ts';
import {
  figure,
  heightOf,
  rounded,
  WIDTH,
  dayNumberOf,
  dayOfNumber,
  scaleOf,
  amount,
  briefAmount,
  shortDay,
  HEIGHT,
  briefNumber,
  wholeNumber,
} from './frame.ts';

// Charts per hour: bars of successes and failures, and lines of durations. Colour is never the only distinction.

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

const legendEntry = (sample: Markup, name: string): Markup =>
  html`<span class="key"><svg aria-hidden="true" viewBox="0 0 24 12">${sample}</svg>${name}</span>`;

const BOX = 'M2 1h20v10h-20z';
const STROKE = 'M1 6h22';

const hourColumn = { name: 'From', isNumber: false };

function barsFigure({ title, summary, hours, good, bad }: Bars, id: string): Markup {
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
function brokenLine(values: readonly (number | null)[], shareOf: (value: number) => number, width: number): string {
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

function linesFigure({ title, summary, hours, unit, main, beside }: Lines, id: string): Markup {
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

// A chart of amounts per day.

const LABELLED_MIDDLE_DAYS = 30;

type Point = { x: number; y: number };

/** Returns the points of the curve; a single day is in the middle. */
function pointsOf({ points }: Curve, shareOf: (value: number) => number): Point[] {
  const days = points.map(({ day }) => dayNumberOf(day));
  const first = days[0] ?? 0;
  const span = (days.at(-1) ?? 0) - first;
  return points.map(({ value }, n) => ({
    x: rounded(span === 0 ? WIDTH / 2 : (((days[n] ?? 0) - first) / span) * WIDTH),
    y: heightOf(shareOf(value)),
  }));
}

function drawing(curve: Curve, shareOf: (value: number) => number): Markup {
  const positions = pointsOf(curve, shareOf);
  const [first, last] = [positions[0], positions.at(-1)];
  if (first === undefined || last === undefined) return html``;
  const line = `M${positions.map(({ x, y }) => `${x} ${y}`).join('L')}`;
  return html`<path class="area" d="${line}V${heightOf(shareOf(0))}H${first.x}Z" />
    <path class="curve" d="${line}" />
    <path class="curve dot" d="M${last.x} ${last.y}h0" />`;
}

function summaryOf({ points, currency }: Curve): string {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return '';
  const now = `${amount(last.value, currency)} on ${shortDay(last.day)}`;
  if (points.length === 1) return now;
  const change = last.value - first.value;
  const since = `on ${shortDay(first.day)}`;
  if (change === 0) return `${now}, unchanged since ${shortDay(first.day)}`;
  // Rounded, because the difference has no more digits than the two amounts.
  const difference = amount(Number(Math.abs(change).toFixed(6)), currency);
  return `${now}, ${difference} ${change > 0 ? 'more' : 'less'} than ${since}`;
}

function daysOf({ points }: Curve): Markup {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || first === last)
    return html`<span>${shortDay(last?.day ?? '')}</span>`;
  const span = dayNumberOf(last.day) - dayNumberOf(first.day);
  // With few days a label in the middle would not match its day.
  const middle = span >= LABELLED_MIDDLE_DAYS && dayOfNumber(dayNumberOf(first.day) + Math.round(span / 2));
  return html`<span>${shortDay(first.day)}</span>${
      middle !== false && html`<span class="middle">${shortDay(middle)}</span>`
    }<span>${shortDay(last.day)}</span>`;
}

function curveFigure(curve: Curve, id: string): Markup {
  const { title, currency, points } = curve;
  const { ticks, shareOf } = scaleOf(points.map(({ value }) => value));
  return figure({
    id,
    title,
    summary: summaryOf(curve),
    ticks: ticks.map((tick) => briefAmount(tick, currency)),
    axis: daysOf(curve),
    drawing: drawing(curve, shareOf),
    columns: [
      { name: 'Day', isNumber: false },
      { name: 'Amount', isNumber: true },
    ],
    rows: points
      .toReversed()
      .map(({ day, value }) => [html`<time datetime="${day}">${shortDay(day)}</time>`, amount(value, currency)]),
  });
}

/** Returns the charts and their note; false without either. */
export function chartsOf({ curves = [], bars = [], lines = [], note }: Charts = {}): Markup | false {
  const figures: readonly ((id: string) => Markup)[] = [
    ...curves.filter(({ points }) => points.length > 0).map((curve) => (id: string) => curveFigure(curve, id)),
    ...bars.map((chart) => (id: string) => barsFigure(chart, id)),
    ...lines.map((chart) => (id: string) => linesFigure(chart, id)),
  ];
  const remark = note !== undefined && html`<p class="soft">${note}</p>`;
  if (figures.length === 0) return remark;
  return html`<div class="charts">${figures.map((draw, n) => draw(`chart-${n + 1}`))}</div>
    ${remark}`;
}

// Sparklines: a trend as a line of text height, with a text alternative.

const TREND_WIDTH = 240;

/** Returns the numbers of a trend; undefined for other values. */
export function trendOf(value: Value): readonly (number | null)[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const items = value as readonly Value[];
  return items.every((item) => item === null || typeof item === 'number') ? items : undefined;
}

/** Returns `Between 40 % (14:00) and 100 % (09:00), latest 97 %`. */
export function trendWords(
  values: readonly (number | null)[],
  { unit, labels }: Pick<Property, 'unit' | 'labels'>,
): string {
  const known = values.flatMap((value, n) => (value === null ? [] : [{ value, label: labels?.[n] }]));
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return 'No data yet';
  const shown = (value: number) => (unit === undefined ? `${value}` : `${value} ${unit}`);
  const at = ({ value, label }: typeof first) => (label === undefined ? shown(value) : `${shown(value)} (${label})`);
  const low = known.reduce((least, item) => (item.value < least.value ? item : least));
  const high = known.reduce((most, item) => (item.value > most.value ? item : most));
  if (low.value === high.value) return `${shown(low.value)} (constant)`;
  return `Between ${at(low)} and ${at(high)}, latest ${shown(last.value)}`;
}

/** Returns the scale: percentages are relative to 100, other values to the maximum. */
const shareOfTrend = (values: readonly (number | null)[], unit: string | undefined): ((value: number) => number) =>
  unit === '%' ? (value) => value / 100 : scaleOf(values.filter((value) => value !== null)).shareOf;

/** Renders the line; the summary is its text alternative and tooltip. */
export function sparkline(property: Property, values: readonly (number | null)[]): Markup {
  const words = trendWords(values, property);
  if (values.every((value) => value === null)) return html`<span class="soft">${words}</span>`;
  const line = brokenLine(values, shareOfTrend(values, property.unit), TREND_WIDTH);
  return html`<svg
    class="trend"
    role="img"
    aria-label="${labelOf(property.name)}: ${words}"
    viewBox="0 0 ${TREND_WIDTH} ${HEIGHT}"
    preserveAspectRatio="none"
  >
    <title>${words}</title>
    <path class="across" d="M0 ${HEIGHT}H${TREND_WIDTH}" />
    <path class="curve" d="${line}" />
  </svg>`;
}

/** Renders the line with the summary beside it. */
export function trendWithWords(property: Property, values: readonly (number | null)[]): Markup {
  return values.every((value) => value === null)
    ? sparkline(property, values)
    : html`${sparkline(property, values)} <span class="soft" aria-hidden="true">${trendWords(values, property)}</span>`;
}
