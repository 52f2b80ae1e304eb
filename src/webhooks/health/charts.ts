/** How webhooks fared, for the pages to draw. */
import type { Charts } from '#hypermedia/chart.ts';
import { hourLabel } from './document.ts';
import { p50, p95, successRate, type Figures } from './figures.ts';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

const countsTitle = 'Attempts in the last 24 hours';
const durationsTitle = 'How long your endpoint took to answer';

type Hour = Figures['hours'][number];

const failedIn = ({ attempts, delivered }: Hour): number => attempts - delivered;

const countsSummary = (figures: Figures, timeZone: string): string => {
  const failed = figures.attempts - figures.delivered;
  const delivered = `${whole.format(figures.delivered)} delivered (${whole.format(successRate(figures) ?? 0)} %)`;
  if (failed === 0) return `${delivered}, none failed`;
  const worst = figures.hours.reduce((most, hour) => (failedIn(hour) > failedIn(most) ? hour : most));
  const inOne = failedIn(worst) === failed ? 'all' : whole.format(failedIn(worst));
  return `${delivered}, ${whole.format(failed)} failed, ${inOne} of them in the hour from ${hourLabel(worst.at, timeZone)}`;
};

const durationsSummary = (figures: Figures): string =>
  `Half of the answers within ${whole.format(p50(figures) ?? 0)} ms, 95 % within ${whole.format(p95(figures) ?? 0)} ms`;

/** Of one webhook, or of several together. */
export const chartsOfFigures = (figures: Figures, timeZone: string): Charts => {
  if (figures.attempts === 0) return { note: 'Nothing was sent in the last 24 hours.' };
  const hours = figures.hours.map(({ at }) => hourLabel(at, timeZone));
  const bars = {
    title: countsTitle,
    summary: countsSummary(figures, timeZone),
    hours,
    good: { name: 'Delivered', counts: figures.hours.map(({ delivered }) => delivered) },
    bad: { name: 'Failed', counts: figures.hours.map(failedIn) },
  };
  if (p50(figures) === null) return { bars: [bars], note: 'No attempt was answered in that time.' };
  const lines = {
    title: durationsTitle,
    summary: durationsSummary(figures),
    hours,
    unit: 'ms',
    main: { name: 'Half within', values: figures.hours.map(p50) },
    beside: { name: '95 % within', values: figures.hours.map(p95) },
  };
  return { bars: [bars], lines: [lines] };
};
