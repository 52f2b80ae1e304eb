/** Documentation of the relations of deliveries, recoveries and health, with examples rendered by the real code. */
import { type Relation, listExample } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { emptyHistogram } from '#core/histogram.ts';
import type { WebhookRow } from './webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history/history-sql.ts';
import { detailedDelivery } from './history/delivery-details.ts';
import { deliveryDocument } from './history/history-documents.ts';
import { compare, viewOfRequest, type Previewed } from './history/delivery-request.ts';
import { recoveryDocument } from './recovery/recovery.ts';
import type { RecoveryRow } from './recovery/recovery-sql.ts';
import { healthDocument, overviewDocument } from './health/health-document.ts';
import { figuresOf, type Health } from './health/figures.ts';
import type { HealthRow, HourRow } from './health/health-sql.ts';

export const now = new Date('2026-11-20T16:05:03Z');

export const webhook: WebhookRow = {
  id: 2281,
  storeId: 1001,
  client: 11,
  isForApp: false,
  user: 7,
  name: 'Orders to the warehouse',
  format: 'json',
  version: '2',
  url: 'https://warehouse.example.com/hooks',
  query: 'zoom=items,customer',
  filter: 'total_order:greaterthan=100&currency_code=EUR',
  encryptionKey: null,
  nextEncryptionKey: null,
  rotationEndsAt: new Date('2026-11-21T09:00:00Z'),
  requestSecrets: null,
  eventResource: 'transaction',
  events: ['transaction/created', 'transaction/refunded'],
  isActive: true,
  inactiveReason: null,
  isHeld: false,
  headers: { 'X-Warehouse': 'north' },
  ratePerSecond: 10,
  retryProfile: 'hour',
  ordering: null,
  epoch: 1,
  revision: 1,
  dateCreated: new Date('2026-11-02T08:30:00Z'),
  dateModified: new Date('2026-11-18T14:12:41Z'),
  timeZone: 'Europe/Berlin',
  consecutiveFailures: 0,
  pausedUntil: null,
  heldUntil: null,
  lacks: null,
};

const about = {
  eventId: 691_489_734_656_233,
  type: 'transaction',
  resourceId: '70012',
  action: 'created',
} as const;

const delivery: DeliveryRow = {
  ...about,
  id: 691_489_734_656_489,
  status: 'successful',
  attempts: 2,
  dateNext: null,
  dateCreated: now,
  dateEnded: new Date('2026-11-20T16:06:11Z'),
  resentAs: null,
  outcome: 'delivered',
  responseCode: 200,
};

export const attempt: AttemptRow = {
  ...about,
  deliveryId: delivery.id,
  n: 2,
  dateStarted: new Date('2026-11-20T16:06:10Z'),
  durationMs: 214,
  outcome: 'delivered',
  responseCode: 200,
  responseHeaders: 'content-type: text/plain',
  responseBody: 'thank you',
  revision: 1,
};

export function listedExample({ baseUrl }: Naming): Document {
  return deliveryDocument(delivery, webhook, baseUrl);
}

const previewed: Previewed = {
  kind: 'made',
  columns: webhook,
  isOther: false,
  headers: Object.entries({
    'content-type': 'application/json',
    'webhook-id': `msg_${delivery.eventId.toString(36)}_2n9c_1rd`,
    'webhook-timestamp': '1795190770',
    'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  }).flat(),
  body: Buffer.from('{"id":70012,"total_order":58.9}'),
  isEncrypted: false,
  isWhole: true,
  isRekeyed: false,
  isHidden: false,
};

const exampleOf =
  (shown: DeliveryRow) =>
  ({ baseUrl }: Naming): Document => {
    const comparison = compare(attempt, shown, { webhook, storeChangedAt: null });
    const request = viewOfRequest({ delivery: shown, webhook, previewed, comparison, attempt: attempt.n, baseUrl });
    return detailedDelivery({
      row: shown,
      webhook,
      attempts: [attempt],
      request,
      previewed,
      isSendable: true,
      attemptsMaxOf: () => 12,
      baseUrl,
      now,
    });
  };

export const deliveryRelations: readonly Relation[] = [
  {
    rel: 'status',
    title: 'A delivery',
    about:
      'The delivery of one event to one webhook: pending until it succeeds or fails. reason explains a failure and how to fix it. At its own address it also has all attempts, the request, and while it is pending attempts_max, the number of attempts after which it fails, and waits_for, the reason why it is pending.',
    paths: ['/webhooks/:webhook_id/statuses/:delivery_id'],
    example: exampleOf(delivery),
    variants: [
      exampleOf({ ...delivery, status: 'pending', dateNext: now, dateEnded: null }),
      // As retry and resend return it.
      listedExample,
    ],
  },
  {
    rel: 'request',
    title: 'The request of a delivery',
    about:
      'The request of an attempt: of the last one, or of the one that the parameter attempt names. It is made by the code that sends it, from the event and the settings that the webhook had at the attempt. as_sent is true if it is byte for byte the request that was sent; otherwise note explains the difference, such as settings that are no longer kept. Signatures are shown to readers who see the key, until it is replaced.',
  },
  {
    rel: 'preceding',
    title: 'The delivery before it',
    about:
      'The delivery that a pending one waits for, because its webhook has the ordering resource: the one before it of the same resource that has not ended yet.',
    paths: ['/webhooks/:webhook_id/statuses/:delivery_id'],
  },
  {
    rel: 'retry',
    title: 'Retry now',
    about:
      'POST attempts a pending delivery next, whenever it is due, even if the endpoint asked for a pause or failed many times. The attempt counts. The response is 409 if the delivery has ended or waits for the listener of a pull webhook.',
    paths: ['/webhooks/:webhook_id/statuses/:delivery_id/retry'],
    makes: ['status'],
  },
  {
    rel: 'resend',
    title: 'Resend a delivery',
    about:
      'POST sends the same event to the same webhook again, even if it arrived. This creates a new delivery with the same webhook-id, whose attempts count from 1. The response is 409 if a delivery of the event is pending, the webhook is disabled, or the event was erased.',
    paths: ['/webhooks/:webhook_id/statuses/:delivery_id/resend'],
    makes: ['status'],
  },
];

const recovery: RecoveryRow = {
  id: 583_913,
  webhookId: 2281,
  state: 'running',
  since: new Date('2026-11-19T08:00:00Z'),
  until: null,
  event: null,
  onlyFailed: false,
  resourceId: null,
  responseCode: null,
  responseBody: null,
  loaded: false,
  eventsTotal: 48_120,
  eventsSeen: 20_000,
  eventsRecovered: 1_734,
  dateCreated: new Date('2026-11-20T16:05:03Z'),
  dateModified: new Date('2026-11-20T16:05:09Z'),
  dateEnded: null,
};

const example = ({ baseUrl }: Naming): Document => recoveryDocument(recovery, webhook, { baseUrl });

export const recoveryRelations: readonly Relation[] = [
  {
    rel: 'recover',
    title: 'Recover missed events',
    about:
      'POST {"since": date} starts a recovery: the webhook is sent those of its events since that date that have neither a successful nor a pending delivery, with their original webhook-id. until limits it to events before a date, event to one event of the webhook, resource_id to one resource, and only_failed to events with a failed delivery. response_code and response_body limit it to events with a failed delivery whose last response had them. In resource_id and response_body * is any text, as in a search of statuses. With loaded the webhook is instead sent the resources of its type that were loaded and not published since, and modified since that date, each as a refeed; the date may be any. Recovered and live events are sent side by side. The response (202) is the recovery with its progress. A webhook has one open recovery at a time.',
    paths: ['/webhooks/:webhook_id/recover'],
    makes: ['recovery'],
  },
  {
    rel: 'recoveries',
    title: 'The recoveries of a webhook',
    about: 'Open and ended recoveries, newest first, for as long as events are kept.',
    paths: ['/webhooks/:webhook_id/recoveries'],
    example: listExample('recoveries', 'The recoveries of this webhook', '/webhooks/2281/recoveries', example),
  },
  {
    rel: 'recovery',
    title: 'A recovery',
    about:
      'events_total is the number of events of the store since the beginning of the day (UTC) of since; events_seen of them were checked, and events_recovered received a delivery; with loaded they count resources. state is waiting (for publishes that were running when it was created), running, finished, cancelled, or stopped (the webhook was disabled meanwhile). Ended recoveries stay readable.',
    paths: ['/webhooks/:webhook_id/recoveries/:recovery_id'],
    example,
  },
  {
    rel: 'cancel',
    title: 'Cancel a recovery',
    about:
      'POST ends a waiting or running recovery; the link exists only for those. No more deliveries are created, existing ones are still sent, and the recovery stays readable.',
    paths: ['/webhooks/:webhook_id/recoveries/:recovery_id/cancel'],
    makes: ['recovery'],
  },
];

const row: HealthRow = {
  ...webhook,
  consecutiveFailures: 2,
  failingSince: new Date('2026-11-20T16:03:14Z'),
  probeAt: null,
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
    example: ({ baseUrl }) => overviewDocument({ healths: [health], total: health.figures }, row, { baseUrl, now }),
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
