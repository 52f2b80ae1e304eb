/** The charts of webhook health on pages. */
import type { Charts } from '#hypermedia/chart.ts';
import type { Range } from '#core/histogram.ts';
import { hourLabel } from './document.ts';
import { p50, p95, range50, range95, successRate, type Figures } from './figures.ts';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

const countsTitle = 'Attempts in the last 24 hours';
const durationsTitle = 'Response time of your endpoint';

type Hour = Figures['hours'][number];

const failedIn = ({ attempts, delivered }: Hour): number => attempts - delivered;

function countsSummary(figures: Figures, timeZone: string): string {
  const failed = figures.attempts - figures.delivered;
  const delivered = `${whole.format(figures.delivered)} delivered (${whole.format(successRate(figures) ?? 0)} %)`;
  if (failed === 0) return `${delivered}, none failed`;
  const worst = figures.hours.reduce((most, hour) => (failedIn(hour) > failedIn(most) ? hour : most));
  const inOne = failedIn(worst) === failed ? 'all' : whole.format(failedIn(worst));
  return `${delivered}, ${whole.format(failed)} failed, ${inOne} of them in the hour from ${hourLabel(worst.at, timeZone)}`;
}

const durationOf = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`);

/** `25–50 ms`, `500 ms–1 s`, `more than 30 s`. */
function rangeText({ above, within }: Range): string {
  if (within === null) return `more than ${durationOf(above)}`;
  const [from, to] = [durationOf(above), durationOf(within)];
  const isSameUnit = from.endsWith(' ms') === to.endsWith(' ms');
  return `${above === 0 ? '0' : isSameUnit ? from.replace(/ m?s$/, '') : from}–${to}`;
}

const durationsSummary = (median: Range, slow: Range): string =>
  `Response time: median ${rangeText(median)}, 95th percentile ${rangeText(slow)}`;

/** Returns the charts of one webhook, or of several together. */
export function chartsOfFigures(figures: Figures, timeZone: string): Charts {
  if (figures.attempts === 0) return { note: 'Nothing was sent in the last 24 hours.' };
  const hours = figures.hours.map(({ at }) => hourLabel(at, timeZone));
  const bars = {
    title: countsTitle,
    summary: countsSummary(figures, timeZone),
    hours,
    good: { name: 'Delivered', counts: figures.hours.map(({ delivered }) => delivered) },
    bad: { name: 'Failed', counts: figures.hours.map(failedIn) },
  };
  const [median, slow] = [range50(figures), range95(figures)];
  if (median === null || slow === null) return { bars: [bars], note: 'No responses in this period.' };
  const lines = {
    title: durationsTitle,
    summary: durationsSummary(median, slow),
    hours,
    unit: 'ms',
    main: { name: 'Half within', values: figures.hours.map(p50) },
    beside: { name: '95 % within', values: figures.hours.map(p95) },
  };
  return { bars: [bars], lines: [lines] };
}
