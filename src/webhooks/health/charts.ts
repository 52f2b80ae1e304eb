/** The charts of webhook health on pages. */
import type { Charts } from '#hypermedia/chart.ts';
import { rangeText, type Range } from '#core/histogram.ts';
import { spanLabel } from './document.ts';
import { p50, p95, PERIODS, range50, range95, successRate, type Figures } from './figures.ts';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

const durationsTitle = 'Response time of your endpoint';

type Span = Figures['spans'][number];

const failedIn = ({ attempts, delivered }: Span): number => attempts - delivered;

function countsSummary(figures: Figures, timeZone: string): string {
  const failed = figures.attempts - figures.delivered;
  const delivered = `${whole.format(figures.delivered)} delivered (${whole.format(successRate(figures) ?? 0)} %)`;
  if (failed === 0) return `${delivered}, none failed`;
  const worst = figures.spans.reduce((most, span) => (failedIn(span) > failedIn(most) ? span : most));
  const inOne = failedIn(worst) === failed ? 'all' : whole.format(failedIn(worst));
  return `${delivered}, ${whole.format(failed)} failed, ${inOne} of them in the ${PERIODS[figures.period].span} from ${spanLabel(worst.at, timeZone, figures.period)}`;
}

const durationsSummary = (median: Range, slow: Range): string =>
  `Response time: median ${rangeText(median)}, 95th percentile ${rangeText(slow)}`;

/** Returns the charts of one webhook, or of several together. */
export function chartsOfFigures(figures: Figures, timeZone: string): Charts {
  if (figures.attempts === 0) return { note: `Nothing was sent in ${PERIODS[figures.period].words}.` };
  const hours = figures.spans.map(({ at }) => spanLabel(at, timeZone, figures.period));
  const bars = {
    title: `Attempts in ${PERIODS[figures.period].words}`,
    summary: countsSummary(figures, timeZone),
    hours,
    good: { name: 'Delivered', counts: figures.spans.map(({ delivered }) => delivered) },
    bad: { name: 'Failed', counts: figures.spans.map(failedIn) },
  };
  const [median, slow] = [range50(figures), range95(figures)];
  if (median === null || slow === null) return { bars: [bars], note: 'No responses in this period.' };
  const lines = {
    title: durationsTitle,
    summary: durationsSummary(median, slow),
    hours,
    unit: 'ms',
    main: { name: 'Half within', values: figures.spans.map(p50) },
    beside: { name: '95 % within', values: figures.spans.map(p95) },
  };
  return { bars: [bars], lines: [lines] };
}
