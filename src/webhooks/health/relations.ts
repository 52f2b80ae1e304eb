/** What the relations of health mean, with examples made as the real ones are. */
import type { Relation } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { emptyHistogram } from '#core/histogram.ts';
import { healthDocument, overviewDocument } from './document.ts';
import { figuresOf } from './figures.ts';
import type { HealthRow, HourRow } from './health-sql.ts';
import type { Health } from './read.ts';

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
  pausedUntil: null,
  probeAt: null,
  lacks: null,
};

const hour = (at: string, outcome: string, attempts: number, bucket: number): HourRow => {
  const durations = emptyHistogram();
  durations[bucket] = attempts;
  return { webhookId: row.id, hour: new Date(at), outcome, attempts, durations };
};

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
  pending: { pending: 2, oldestAt: new Date('2026-11-20T16:03:12Z') },
  last: new Map([[last.outcome, last]]),
};

const healthExample = ({ baseUrl }: Naming): Document => healthDocument(health, { baseUrl, now });

const overviewExample = ({ baseUrl }: Naming): Document =>
  overviewDocument({ healths: [health], together: health.figures }, row, { baseUrl, now });

/** It is embedded, and has no address of its own. */
const failureExample = (naming: Naming): Document => {
  const [failure] = healthExample(naming).embedded.flatMap(({ documents }) => documents);
  if (failure === undefined) throw new TypeError('The example of a health has no failure');
  return failure;
};

const measures =
  'The last 24 hours are the hour that runs and the 23 before it. success_rate is per cent of the attempts; duration_p50 and duration_p95 are milliseconds within which half and 95 % of the answers came: the next of 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000 and 30000, which also stands for more. The trends have one number an hour, oldest first, null where there was nothing.';

export const healthRelations: readonly Relation[] = [
  {
    rel: 'overview',
    title: 'How the webhooks of a store fare',
    about: `All webhooks of the store at once, those first that need somebody: how many fail, are paused or switched off, and what arrived in the last 24 hours.`,
    paths: ['/stores/:store_id/overview'],
    example: overviewExample,
  },
  {
    rel: 'health',
    title: 'How a webhook fares',
    about: `Whether it works, how fast your server answers, what failed and why, and what waits. While attempts fail one after the other, reason says why the last of them did. ${measures} An attempt is seen here some seconds after it was made. pending is counted up to 10,000, and up to 1,000 in an overview. While the breaker is open one delivery is tried at date_next_probe, and the others wait for it.`,
    paths: ['/webhooks/:webhook_id/health'],
    example: healthExample,
  },
  {
    rel: 'healths',
    title: 'The health of each webhook',
    about: 'Each webhook of the store, worst first. They stand in the overview.',
  },
  {
    rel: 'failures',
    title: 'What failed',
    about: 'Each way in which attempts of the last 24 hours failed, the latest first. They stand in a health.',
  },
  {
    rel: 'failure',
    title: 'One way in which attempts failed',
    about:
      'How often attempts of this webhook ended so, what to do about it, and when that happened last, with the status of that answer. Where 1,000 attempts came after it, date_last is the hour. svc:logs leads to the attempts.',
    example: failureExample,
  },
];
