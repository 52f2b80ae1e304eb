/** A chart of amounts per day. */
import type { Curve } from '../../chart.ts';
import { html, type Markup } from '../../markup.ts';
import { figure, heightOf, rounded, WIDTH } from './frame.ts';
import { dayNumberOf, dayOfNumber, scaleOf } from './scale.ts';
import { amount, briefAmount, shortDay } from './words.ts';

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

export function curveFigure(curve: Curve, id: string): Markup {
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
