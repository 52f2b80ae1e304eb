/** Renders the charts of a page side by side. */
import type { Charts, Curve, Bars, Lines, Measured } from '../view.ts';
import type { Property, Value } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { dataTable, type Cell, type Column } from './data-table.ts';
import { inSentence, labelOf, isCurrency, roundedMoney } from './words.ts';

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

const hourColumn: Column = { name: 'From' };

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
    columns: [hourColumn, { name: good.name, kind: 'number' }, { name: bad.name, kind: 'number' }],
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
    columns: [hourColumn, { name: main.name, kind: 'number' }, { name: beside.name, kind: 'number' }],
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

function curveDrawing(curve: Curve, shareOf: (value: number) => number): Markup {
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
    drawing: curveDrawing(curve, shareOf),
    columns: [{ name: 'Day' }, { name: 'Amount', kind: 'number' }],
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

// Short texts of amounts, numbers and days for charts.

/** Returns `€1.25K`; from 10¹⁵ in scientific notation: `1.2E18`. */
function briefAmount(value: number, currency: string): string {
  return new Intl.NumberFormat('en', {
    ...(isCurrency(currency) && { style: 'currency', currency }),
    notation: Math.abs(value) < 1e15 ? 'compact' : 'scientific',
    maximumSignificantDigits: 3,
  }).format(value);
}

/** Returns an amount with the decimals of its currency: a yearly price divided by months has millionths. */
function amount(value: number, currency: string): string {
  return Math.abs(value) < 1e15 ? roundedMoney(value, currency) : briefAmount(value, currency);
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** Returns `19 Nov 2026`, as in table cells. */
function shortDay(written: string): string {
  const [year = '', month, day] = written.split('-');
  return `${Number(day)} ${MONTHS[Number(month) - 1] ?? ''} ${year}`;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const brief = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** Returns `12,500`. */
function wholeNumber(value = 0): string {
  return whole.format(value);
}

/** Returns `12.5K`. */
function briefNumber(value: number): string {
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

// The frame of all charts: title, axes, drawing and data table. Charts are static SVG with classes of the style sheet,
// because the Content-Security-Policy permits nothing else. The drawing is stretched to its box and labels are HTML
// beside it, so they have the same size on a phone.

const WIDTH = 600;
const HEIGHT = 100;

/** Rounds a coordinate to a tenth of a unit, which is finer than any screen. */
function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Returns the y coordinate of a share of the height (0 at the bottom, 1 at the top). */
function heightOf(share: number): number {
  return rounded(HEIGHT * (1 - share));
}

type Figure = {
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
  rows: readonly (readonly Cell[])[];
};

const gridLines = (count: number): string =>
  Array.from({ length: count }, (_, n) => `M0 ${rounded((HEIGHT * n) / (count - 1))}H${WIDTH}`).join('');

function figure(options: Figure): Markup {
  const { id, title, summary, ticks, axis, drawing, keys, columns, rows } = options;
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
    <details class="fold">
      <summary>Show data</summary>
      ${dataTable(title, columns, rows)}
    </details>
  </figure>`;
}
