/** Documentation of the relations of health, with examples rendered by the real code. */
import type { Relation } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { emptyHistogram } from '#core/histogram.ts';
import { healthDocument, overviewDocument } from './health-document.ts';
import { figuresOf, type Health } from './figures.ts';
import type { HealthRow, HourRow } from './health-sql.ts';

const now = new Date('2026-11-20T16:05:03Z');

const row: HealthRow = {
  id: 2281,
  storeId: 1001,
  name: 'Orders to the warehouse',
  isActive: true,
  inactiveReason: null,
  epoch: 1,
  timeZone: 'Europe/Berlin',
  consecutiveFailures: 2,
  failingSince: new Date('2026-11-20T16:03:14Z'),
  pausedUntil: null,
  probeAt: null,
  lacks: null,
};

function hour(at: string, outcome: string, attempts: number, bucket: number): HourRow {
  const durations = emptyHistogram();
  durations[bucket] = attempts;
  return { webhookId: row.id, hour: new Date(at), outcome, attempts, durations };
}

const hours: readonly HourRow[] = [
  hour('2026-11-20T14:00:00Z', 'delivered', 118, 3),
  hour('2026-11-20T15:00:00Z', 'delivered', 96, 4),
  hour('2026-11-20T16:00:00Z', 'delivered', 9, 4),
  hour('2026-11-20T16:00:00Z', 'refused', 2, 5),
];

const last = { webhookId: row.id, outcome: 'refused', at: new Date('2026-11-20T16:04:41Z'), responseCode: 503 };

const health: Health = {
  row,
  figures: figuresOf(hours, now),
  pending: {
    pending: 2,
    retrying: 2,
    oldestAt: new Date('2026-11-20T16:03:12Z'),
    nextAt: new Date('2026-11-20T16:05:41Z'),
  },
  notArrived: { count: 5, since: new Date('2026-11-19T06:14:09Z') },
  lastAttempt: 'failed',
  last: new Map([[last.outcome, last]]),
};

const healthExample = ({ baseUrl }: Naming): Document => healthDocument(health, { baseUrl, now });

const overviewExample = ({ baseUrl }: Naming): Document =>
  overviewDocument({ healths: [health], total: health.figures }, row, { baseUrl, now });

/** Returns the embedded example; a failure has no address of its own. */
function failureExample(naming: Naming): Document {
  const [failure] = healthExample(naming).embedded.flatMap(({ documents }) => documents);
  if (failure === undefined) throw new TypeError('The health example has no failure');
  return failure;
}

const measures =
  'The statistics are of the period, 24h unless period is 7d or 30d: the current hour and the hours before it. success_rate is the percentage of successful attempts. duration_p50 and duration_p95 are the median and the 95th percentile of the response time in milliseconds, rounded up to 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000 or 30000 (which includes longer times). The trends have one number per hour (7d: per 6 hours, 30d: per 24 hours), oldest first, null for those without data.';

export const healthRelations: readonly Relation[] = [
  {
    rel: 'overview',
    title: 'The health of all webhooks of a store',
    about: `All webhooks of the store, those that need attention first: how many are failing, paused or disabled, and how many attempts of the period succeeded.`,
    paths: ['/stores/:store_id/overview'],
    example: overviewExample,
  },
  {
    rel: 'health',
    title: 'The health of a webhook',
    about: `State, success rate, response times, failures and pending deliveries of a webhook. While consecutive attempts fail, reason explains the last failure, and failing_since is the time of the first. ${measures} Attempts are included after some seconds. pending is counted up to 10,000, and up to 1,000 in an overview; date_next is the time of the next attempt. not_arrived counts the events that did not arrive, as long as they are kept, up to 1,000: those whose last delivery has failed, and which can be sent again; not_arrived_since is the date of the oldest. svc:recover with only_failed and this date sends them. While the circuit breaker is open, one delivery is attempted at date_next_probe, and the others wait for it.`,
    paths: ['/webhooks/:webhook_id/health'],
    example: healthExample,
  },
  {
    rel: 'healths',
    title: 'The health of each webhook',
    about: 'Each webhook of the store, worst first. Embedded in the overview.',
  },
  {
    rel: 'failures',
    title: 'Failures',
    about: 'The failed attempts of the period by outcome, the latest first. Embedded in a health.',
  },
  {
    rel: 'failure',
    title: 'Failed attempts with one outcome',
    about:
      'The number of attempts with this outcome, the reason and how to fix it, and the date and response status of the last one. If 1,000 attempts followed, date_last is the hour. svc:logs lists the attempts.',
    example: failureExample,
  },
];
