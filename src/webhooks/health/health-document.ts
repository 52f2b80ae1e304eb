/** The Documents of a webhook's health and of a store's overview. */
import { formatDate } from '#hypermedia/date.ts';
import {
  boolean,
  date,
  enumeration,
  number,
  text,
  viewType,
  type Document,
  type Link,
  type Property,
} from '#hypermedia/document.ts';
import { clockOf, momentOf } from '#hypermedia/shown-date.ts';
import {
  addressOfStore,
  addressOfWebhook,
  addressOfWebhooks,
  lackReason,
  breadcrumbLinks,
  stateOf,
} from '../webhook-document.ts';
import type { WebhookState } from '../webhook-fields.ts';
import { reasonOf } from '../history/history-documents.ts';
import {
  DEFAULT_PERIOD,
  p50,
  p95,
  successRate,
  type Failure,
  type Figures,
  type Health,
  type Healths,
  type Period,
} from './figures.ts';

type Shown = { baseUrl: string; now: Date };

const addressOfOverview = (storeId: number, baseUrl: string): string => `${addressOfStore(storeId, baseUrl)}/overview`;

/** Returns the beginning of a span in the time zone of the store: its time, with the day unless all spans are of the last 24 hours. */
export function spanLabel(at: Date, timeZone: string, period: Period): string {
  const written = formatDate(at, timeZone);
  return period === DEFAULT_PERIOD ? clockOf(written) : momentOf(written);
}

/** Returns the address of statistics of a period. */
const ofPeriod = (address: string, { period }: Figures): string =>
  period === DEFAULT_PERIOD ? address : `${address}?period=${period}`;

export type Span = Figures['spans'][number];

/** Returns a number of each span of the figures, oldest first. */
const trend = (
  { spans, period }: Figures,
  { name, unit, of, timeZone }: { name: string; unit: string; of: (span: Span) => number | null; timeZone: string },
): Property => ({
  name,
  kind: 'trend',
  value: spans.map(of),
  unit,
  labels: spans.map(({ at }) => spanLabel(at, timeZone, period)),
});

const countProperties = (figures: Figures): Property[] => [
  enumeration('period', figures.period),
  number('attempts', figures.attempts),
  number('delivered', figures.delivered),
  { ...number.orNull('success_rate', successRate(figures)), unit: '%' },
];

function failureView({ outcome, attempts, hour }: Failure, { row, last }: Health, baseUrl: string) {
  const found = last.get(outcome);
  const responseCode = found?.responseCode ?? null;
  return {
    outcome,
    responseCode,
    reason: reasonOf({ outcome, responseCode })?.text ?? null,
    attempts,
    dateLast: formatDate(found?.at ?? hour, row.timeZone),
    // The attempts with this outcome.
    logs: `${addressOfWebhook(row.id, baseUrl)}/logs?outcome=${encodeURIComponent(outcome)}`,
  };
}

type FailureView = ReturnType<typeof failureView>;

const failureDocument = ({ outcome, responseCode, reason, attempts, dateLast, logs }: FailureView): Document => ({
  name: 'failure',
  links: [{ rel: 'logs', href: logs, title: 'The attempts with this outcome' }],
  embedded: [],
  properties: [
    text('outcome', outcome),
    number.orNull('response_code', responseCode),
    text.orNull('reason', reason),
    number('attempts', attempts),
    date('date_last', dateLast),
  ],
});

/** Returns what is wrong now: a missing setting, or the last failure of a failing webhook; null if nothing is. */
function currentReason({ row, figures, last }: Health): string | null {
  const lack = lackReason(row);
  if (lack !== null) return lack;
  const [latest] = figures.failures;
  if (latest === undefined || row.consecutiveFailures === 0) return null;
  const responseCode = last.get(latest.outcome)?.responseCode ?? null;
  return reasonOf({ outcome: latest.outcome, responseCode })?.text ?? null;
}

/** Returns when the next attempt is: when a delivery is due, unless all wait for a pause or a probe to end; null without one. */
function nextAttempt({ row, pending }: Health): Date | null {
  if (!row.isActive || pending.nextAt === null) return null;
  const times = [pending.nextAt, row.pausedUntil, row.probeAt].filter((at) => at !== null);
  return new Date(Math.max(...times.map((at) => at.getTime())));
}

function linksOf({ row, figures }: Health, baseUrl: string): Link[] {
  const webhook = addressOfWebhook(row.id, baseUrl);
  return [
    { rel: 'self', href: ofPeriod(`${webhook}/health`, figures), title: 'The health of this webhook' },
    ...breadcrumbLinks(row, baseUrl),
    {
      rel: 'overview',
      href: addressOfOverview(row.storeId, baseUrl),
      title: 'The overview of the store',
    },
    { rel: 'statuses', href: `${webhook}/statuses`, title: 'The deliveries of this webhook' },
    { rel: 'logs', href: `${webhook}/logs`, title: 'The attempts to deliver to this webhook' },
  ];
}

/** Returns what pages show of a health. */
function viewOf(health: Health, { baseUrl, now }: Shown) {
  const { row, figures, pending, notArrived } = health;
  const { timeZone, pausedUntil } = row;
  const formatted = (at: Date | null): string | null => at && formatDate(at, timeZone);
  return {
    name: row.name,
    address: addressOfWebhook(row.id, baseUrl),
    state: stateOf(row, now),
    isActive: row.isActive,
    inactiveReason: row.inactiveReason,
    // What is wrong now, as a sentence.
    reason: currentReason(health),
    failingSince: formatted(row.failingSince),
    pausedUntil: formatted(pausedUntil !== null && pausedUntil > now ? pausedUntil : null),
    attempts: figures.attempts,
    delivered: figures.delivered,
    successRate: successRate(figures),
    // Upper bounds of the ranges of the median and of the 95th percentile.
    medianMs: p50(figures),
    slowMs: p95(figures),
    trend: trend(figures, { name: 'success_trend', unit: '%', of: successRate, timeZone }),
    pending: pending.pending,
    retrying: pending.retrying,
    // The events that did not arrive, up to `NOT_ARRIVED_COUNTED_MAX`, and the date of the oldest.
    notArrived: notArrived.count,
    notArrivedSince: formatted(notArrived.since),
    lastAttempt: health.lastAttempt,
    oldestPending: formatted(pending.oldestAt),
    dateNext: formatted(nextAttempt(health)),
    // The newest first.
    failures: figures.failures.map((failure) => failureView(failure, health, baseUrl)),
  };
}

export type HealthView = ReturnType<typeof viewOf>;
export const healthView = viewType<HealthView>('health');

function documentOf(health: Health, view: HealthView, baseUrl: string): Document {
  const { row, figures } = health;
  const { timeZone, probeAt } = row;
  return {
    name: 'health',
    title: row.name,
    links: linksOf(health, baseUrl),
    embedded: [{ rel: 'failures', isTimeline: true, documents: view.failures.map(failureDocument) }],
    properties: [
      number('webhook_id', row.id),
      text('name', row.name),
      enumeration('state', view.state),
      // As `is_active` of the webhook.
      boolean('is_active', row.isActive ? '1' : '0'),
      enumeration.orNull('inactive_reason', row.inactiveReason),
      number('consecutive_failures', row.consecutiveFailures),
      date.orNull('failing_since', view.failingSince),
      text.orNull('reason', view.reason),
      date.orNull('paused_until', view.pausedUntil),
      enumeration('breaker', probeAt === null ? 'closed' : 'open'),
      date.orNull('date_next_probe', probeAt && formatDate(probeAt, timeZone)),
      ...countProperties(figures),
      view.trend,
      { ...number.orNull('duration_p50', view.medianMs), unit: 'ms' },
      { ...number.orNull('duration_p95', view.slowMs), unit: 'ms' },
      trend(figures, { name: 'duration_trend', unit: 'ms', of: p95, timeZone }),
      number('pending', view.pending),
      date.orNull('oldest_pending', view.oldestPending),
      date.orNull('date_next', view.dateNext),
      number('not_arrived', view.notArrived),
      date.orNull('not_arrived_since', view.notArrivedSince),
    ],
    ...healthView.attach(view),
  };
}

export function healthDocument(health: Health, shown: Shown): Document {
  return documentOf(health, viewOf(health, shown), shown.baseUrl);
}

/** Webhooks that need attention come first; within a state, the lowest success rate. */
const ORDER: readonly WebhookState[] = ['failing', 'paused', 'inactive', 'ok'];
/** Sorts webhooks without attempts after all others, as nothing is known to be wrong. */
const NO_ATTEMPTS_RATE = 101;

const worstFirst = (healths: readonly Health[], now: Date): Health[] =>
  healths.toSorted(
    (a, b) =>
      ORDER.indexOf(stateOf(a.row, now)) - ORDER.indexOf(stateOf(b.row, now)) ||
      (successRate(a.figures) ?? NO_ATTEMPTS_RATE) - (successRate(b.figures) ?? NO_ATTEMPTS_RATE) ||
      a.row.id - b.row.id,
  );

type OverviewView = {
  storeId: number;
  period: Period;
  /** The worst first. */
  healths: readonly HealthView[];
  /** The address of the webhooks of the store. */
  webhooks: string;
};

export const overviewView = viewType<OverviewView>('overview');

export function overviewDocument(
  { healths, total }: Healths,
  { storeId }: { storeId: number },
  shown: Shown,
): Document {
  const { baseUrl, now } = shown;
  const states = healths.map(({ row }) => stateOf(row, now));
  const ordered = worstFirst(healths, now).map((health) => ({ health, view: viewOf(health, shown) }));
  const inState = (state: WebhookState): Property => number(state, states.filter((one) => one === state).length);
  return {
    name: 'overview',
    title: 'Webhook health',
    links: [
      {
        rel: 'self',
        href: ofPeriod(addressOfOverview(storeId, baseUrl), total),
        title: 'The overview of this store',
      },
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store', crumb: 'Store' },
      { rel: 'webhooks', href: addressOfWebhooks(storeId, baseUrl), title: 'All webhooks of the store' },
    ],
    embedded: [
      {
        rel: 'healths',
        title: 'Webhooks',
        documents: ordered.map(({ health, view }) => documentOf(health, view, baseUrl)),
      },
    ],
    properties: [
      number('total', healths.length),
      ...ORDER.map(inState),
      ...countProperties(total),
      number(
        'pending',
        healths.reduce((sum, { pending }) => sum + pending.pending, 0),
      ),
      number(
        'not_arrived',
        healths.reduce((sum, { notArrived }) => sum + notArrived.count, 0),
      ),
    ],
    ...overviewView.attach({
      storeId,
      period: total.period,
      healths: ordered.map(({ view }) => view),
      webhooks: addressOfWebhooks(storeId, baseUrl),
    }),
  };
}
