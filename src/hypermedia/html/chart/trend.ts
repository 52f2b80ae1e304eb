/** A trend as a line as high as the text beside it, with a sentence for those who do not see it. */
import type { Property, Value } from '../../document.ts';
import { html, type Markup } from '../../markup.ts';
import { harmless } from '../harmless.ts';
import { labelOf } from '../words.ts';
import { HEIGHT } from './frame.ts';
import { brokenLine } from './hourly.ts';
import { scaleOf } from './scale.ts';

const WIDTH = 240;

/** The numbers of a trend; undefined where the value is none. */
export const trendOf = (value: Value): readonly (number | null)[] | undefined => {
  if (!Array.isArray(value)) return undefined;
  const items = value as readonly Value[];
  return items.every((item) => item === null || typeof item === 'number') ? items : undefined;
};

/** `From 40 % (14:00) to 100 % (09:00), last 97 %`. */
export const trendWords = (
  values: readonly (number | null)[],
  { unit, labels }: Pick<Property, 'unit' | 'labels'>,
): string => {
  const known = values.flatMap((value, n) => (value === null ? [] : [{ value, label: labels?.[n] }]));
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return 'Nothing yet';
  const amount = (value: number) => (unit === undefined ? `${value}` : `${value} ${unit}`);
  const at = ({ value, label }: typeof first) => (label === undefined ? amount(value) : `${amount(value)} (${label})`);
  const low = known.reduce((least, one) => (one.value < least.value ? one : least));
  const high = known.reduce((most, one) => (one.value > most.value ? one : most));
  if (low.value === high.value) return `${amount(low.value)} all the time`;
  return `From ${at(low)} to ${at(high)}, last ${amount(last.value)}`;
};

/** Shares are drawn of a hundred, everything else of the most that there is. */
const shareOfTrend = (values: readonly (number | null)[], unit: string | undefined): ((value: number) => number) =>
  unit === '%' ? (value) => value / 100 : scaleOf(values.filter((value) => value !== null)).shareOf;

/** The line alone; what it says is its text alternative, and stands under the pointer. */
export const sparkline = (property: Property, values: readonly (number | null)[]): Markup => {
  const words = harmless(trendWords(values, property));
  if (values.every((value) => value === null)) return html`<span class="soft">${words}</span>`;
  const line = brokenLine(values, shareOfTrend(values, property.unit), WIDTH);
  return html`<svg
    class="trend"
    role="img"
    aria-label="${harmless(labelOf(property.name))}: ${words}"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    preserveAspectRatio="none"
  >
    <title>${words}</title>
    <path class="across" d="M0 ${HEIGHT}H${WIDTH}" />
    <path class="curve" d="${line}" />
  </svg>`;
};

/** Where there is room, the sentence stands beside the line. */
export const trendWithWords = (property: Property, values: readonly (number | null)[]): Markup =>
  values.every((value) => value === null)
    ? sparkline(property, values)
    : html`${sparkline(property, values)}
        <span class="soft" aria-hidden="true">${harmless(trendWords(values, property))}</span>`;
