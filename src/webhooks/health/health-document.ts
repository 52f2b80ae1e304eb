/** The Documents of a webhook's health and of a store's overview. */
import { formatDate } from '#hypermedia/date.ts';
import {
  boolean,
  date,
  enumeration,
  number,
  text,
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
import { reasonOf } from '../history/reason.ts';
import { DEFAULT_PERIOD, p50, p95, successRate, type Failure, type Figures, type Period } from './figures.ts';
import type { Health, Healths } from './read.ts';

type Shown = { baseUrl: string; now: Date };

const addressOfHealth = (id: number, baseUrl: string): string => `${addressOfWebhook(id, baseUrl)}/health`;
const addressOfOverview = (storeId: number, baseUrl: string): string => `${addressOfStore(storeId, baseUrl)}/overview`;

const dateOrNull = (name: string, at: Date | null, timeZone: string): Property =>
  date.orNull(name, at && formatDate(at, timeZone));

/** Returns the beginning of a span in the time zone of the store: its time, with the day unless all spans are of the last 24 hours. */
export function spanLabel(at: Date, timeZone: string, period: Period): string {
  const written = formatDate(at, timeZone);
  return period === DEFAULT_PERIOD ? clockOf(written) : momentOf(written);
}

/** Returns the address of statistics of a period. */
const ofPeriod = (address: string, { period }: Figures): string =>
  period === DEFAULT_PERIOD ? address : `${address}?period=${period}`;

const trend = (
  name: string,
  unit: string,
  values: readonly (number | null)[],
  labels: readonly string[],
): Property => ({
  name,
  kind: 'trend',
  value: values,
  unit,
  labels,
});

const countProperties = (figures: Figures): Property[] => [
  enumeration('period', figures.period),
  number('attempts', figures.attempts),
  number('delivered', figures.delivered),
  { ...number.orNull('success_rate', successRate(figures)), unit: '%' },
];

function statisticProperties(figures: Figures, timeZone: string): Property[] {
  const { spans, period } = figures;
  const labels = spans.map(({ at }) => spanLabel(at, timeZone, period));
  return [
    ...countProperties(figures),
    trend('success_trend', '%', spans.map(successRate), labels),
    { ...number.orNull('duration_p50', p50(figures)), unit: 'ms' },
    { ...number.orNull('duration_p95', p95(figures)), unit: 'ms' },
    trend('duration_trend', 'ms', spans.map(p95), labels),
  ];
}

function failureDocument({ outcome, attempts, hour }: Failure, { row, last }: Health, baseUrl: string): Document {
  const found = last.get(outcome);
  const responseCode = found?.responseCode ?? null;
  const logs = `${addressOfWebhook(row.id, baseUrl)}/logs?outcome=${encodeURIComponent(outcome)}`;
  return {
    name: 'failure',
    links: [{ rel: 'logs', href: logs, title: 'The attempts with this outcome' }],
    embedded: [],
    properties: [
      text('outcome', outcome),
      number.orNull('response_code', responseCode),
      text.orNull('reason', reasonOf({ outcome, responseCode })),
      number('attempts', attempts),
      date('date_last', formatDate(found?.at ?? hour, row.timeZone)),
    ],
  };
}

/** Returns what is wrong now: a missing setting, or the last failure of a failing webhook; null if nothing is. */
function currentReason({ row, figures, last }: Health): string | null {
  const lack = lackReason(row);
  if (lack !== null) return lack;
  const [latest] = figures.failures;
  if (latest === undefined || row.consecutiveFailures === 0) return null;
  return reasonOf({ outcome: latest.outcome, responseCode: last.get(latest.outcome)?.responseCode ?? null });
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
    { rel: 'self', href: ofPeriod(addressOfHealth(row.id, baseUrl), figures), title: 'The health of this webhook' },
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

export function healthDocument(health: Health, { baseUrl, now }: Shown): Document {
  const { row, figures, pending } = health;
  const { timeZone, probeAt } = row;
  return {
    name: 'health',
    title: row.name,
    links: linksOf(health, baseUrl),
    embedded: [
      {
        rel: 'failures',
        isTimeline: true,
        documents: figures.failures.map((failure) => failureDocument(failure, health, baseUrl)),
      },
    ],
    properties: [
      number('webhook_id', row.id),
      text('name', row.name),
      enumeration('state', stateOf(row, now)),
      // Written like is_active of the webhook.
      boolean('is_active', row.isActive ? '1' : '0'),
      enumeration.orNull('inactive_reason', row.inactiveReason),
      number('consecutive_failures', row.consecutiveFailures),
      dateOrNull('failing_since', row.failingSince, timeZone),
      text.orNull('reason', currentReason(health)),
      dateOrNull('paused_until', row.pausedUntil !== null && row.pausedUntil > now ? row.pausedUntil : null, timeZone),
      enumeration('breaker', probeAt === null ? 'closed' : 'open'),
      dateOrNull('date_next_probe', probeAt, timeZone),
      ...statisticProperties(figures, timeZone),
      number('pending', pending.pending),
      dateOrNull('oldest_pending', pending.oldestAt, timeZone),
      dateOrNull('date_next', nextAttempt(health), timeZone),
    ],
  };
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

export function overviewDocument(
  { healths, total }: Healths,
  { storeId }: { storeId: number },
  shown: Shown,
): Document {
  const { baseUrl, now } = shown;
  const states = healths.map(({ row }) => stateOf(row, now));
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
        documents: worstFirst(healths, now).map((health) => healthDocument(health, shown)),
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
    ],
  };
}
