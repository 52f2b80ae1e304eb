/** Sparklines: a trend as a line of text height, with a text alternative. */
import type { Property, Value } from '../../document.ts';
import { html, type Markup } from '../../markup.ts';
import { labelOf } from '../words.ts';
import { HEIGHT, scaleOf } from './frame.ts';
import { brokenLine } from './chart-cards.ts';

const WIDTH = 240;

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
  const amount = (value: number) => (unit === undefined ? `${value}` : `${value} ${unit}`);
  const at = ({ value, label }: typeof first) => (label === undefined ? amount(value) : `${amount(value)} (${label})`);
  const low = known.reduce((least, item) => (item.value < least.value ? item : least));
  const high = known.reduce((most, item) => (item.value > most.value ? item : most));
  if (low.value === high.value) return `${amount(low.value)} (constant)`;
  return `Between ${at(low)} and ${at(high)}, latest ${amount(last.value)}`;
}

/** Returns the scale: percentages are relative to 100, other values to the maximum. */
const shareOfTrend = (values: readonly (number | null)[], unit: string | undefined): ((value: number) => number) =>
  unit === '%' ? (value) => value / 100 : scaleOf(values.filter((value) => value !== null)).shareOf;

/** Renders the line; the summary is its text alternative and tooltip. */
export function sparkline(property: Property, values: readonly (number | null)[]): Markup {
  const words = trendWords(values, property);
  if (values.every((value) => value === null)) return html`<span class="soft">${words}</span>`;
  const line = brokenLine(values, shareOfTrend(values, property.unit), WIDTH);
  return html`<svg
    class="trend"
    role="img"
    aria-label="${labelOf(property.name)}: ${words}"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    preserveAspectRatio="none"
  >
    <title>${words}</title>
    <path class="across" d="M0 ${HEIGHT}H${WIDTH}" />
    <path class="curve" d="${line}" />
  </svg>`;
}

/** Renders the line with the summary beside it. */
export function trendWithWords(property: Property, values: readonly (number | null)[]): Markup {
  return values.every((value) => value === null)
    ? sparkline(property, values)
    : html`${sparkline(property, values)} <span class="soft" aria-hidden="true">${trendWords(values, property)}</span>`;
}
