/** The health of a webhook and the overview of a store: the last 24 hours, or a longer period. */
import type { Sql, Queryable } from '#db/pool.ts';
import type { Document } from '#hypermedia/document.ts';
import { guarded, type Beside } from '#http/operation.ts';
import { storeOfAddress } from '#core/principal.ts';
import { notFound } from '#core/problem.ts';
import type { Advice, Charts, Suggestion } from '#hypermedia/view.ts';
import { rangeText, type Range } from '#core/histogram.ts';
import { formatDate, parseDate } from '#hypermedia/date.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import { shardOf, dayOf, firstIdOfDay, type StoreKey } from '#core/ids.ts';
import type { Search } from '#db/search.ts';
import { READ_SCOPES, appOf, keyOf, webhookOf, type WebhookDeps } from '../webhook-access.ts';
import { hasStore, type Key } from '../webhook-sql.ts';
import { addressOfWebhook, lackReason, stateOf } from '../webhook-document.ts';
import { reasonOf } from '../history/history-documents.ts';
import type { WebhookState } from '../webhook-fields.ts';
import { healthDocument, overviewDocument, spanLabel, type Span } from './health-document.ts';
import {
  DEFAULT_PERIOD,
  PERIODS,
  figuresOf,
  p50,
  p95,
  range50,
  range95,
  readHealths,
  readHours,
  readPeriod,
  successRate,
  type Figures,
  type Health,
  type Period,
  lastAttempts,
  NOT_ARRIVED_COUNTED_MAX,
} from './figures.ts';
import {
  findFailureState,
  findHealth,
  listHealths,
  type FailureState,
  type AdvisedWebhook,
  listFailing,
  type FailingRow,
  listLastOutcomes,
  listNotArrived,
  listPending,
} from './health-sql.ts';

/** Limits of counted pending deliveries per webhook; lower in the overview, which counts up to a hundred webhooks. */
const PENDING_COUNTED_MAX = 10_000;
const PENDING_COUNTED_MAX_EACH = 1_000;

/** The time zone if the store has no webhooks, and thus no hours to show. */
const DEFAULT_TIME_ZONE = 'UTC';

/** Reads the health of one webhook. Throws a 404 if it does not exist. */
async function readHealth(sql: Sql, key: Key, { now, period }: { now: Date; period: Period }): Promise<Health> {
  const row = await findHealth(sql, key);
  if (row === undefined) throw notFound('webhook');
  const options = { now, period, pendingLimit: PENDING_COUNTED_MAX };
  const [health] = (await readHealths(sql, key.shard, [row], options)).healths;
  if (health === undefined) throw new Error(`Health of webhook ${key.id} not found`);
  return health;
}

/** Returns what the page of a webhook shows beside its settings: charts, and its health. */
export async function statisticsOfWebhook(
  { sql, config }: Pick<WebhookDeps, 'sql' | 'config'>,
  key: Key,
  now: Date,
): Promise<{ charts: Charts; summary: Document }> {
  const health = await readHealth(sql, key, { now, period: DEFAULT_PERIOD });
  return {
    charts: chartsOfFigures(health.figures, health.row.timeZone),
    summary: healthDocument(health, { baseUrl: config.baseUrl, now }),
  };
}

/** Creates the charts for the page of a store; passed to the module stores, which does not import this one. */
export function createStoreCharts({ sql, config }: Pick<WebhookDeps, 'sql' | 'config'>) {
  return async ({ shard, storeId }: StoreKey, now: Date): Promise<Charts> => {
    // The charts are of all webhooks, also those of apps that the reader does not see: they name none.
    const rows = await listHealths(sql, { shard, storeId }, config.webhooks.webhooksPerStore, null);
    const [first] = rows;
    if (first === undefined) return {};
    const ids = rows.map(({ id }) => id);
    const hours = await readHours(sql, shard, ids, { now, period: DEFAULT_PERIOD });
    return chartsOfFigures(figuresOf(hours, now), first.timeZone);
  };
}

/** Reads the overview of the webhooks of a store, or of those that an app (`app`) sees. Throws a 404 if the store does not exist. */
export async function readOverview(
  { sql, config }: Pick<WebhookDeps, 'sql' | 'config'>,
  store: StoreKey & { app: number | null },
  { now, period = DEFAULT_PERIOD }: { now: Date; period?: Period },
): Promise<{ document: Document; beside: Beside }> {
  const rows = await listHealths(sql, store, config.webhooks.webhooksPerStore, store.app);
  if (rows.length === 0 && !(await hasStore(sql, store))) throw notFound('store');
  const found = await readHealths(sql, store.shard, rows, { now, period, pendingLimit: PENDING_COUNTED_MAX_EACH });
  return {
    document: overviewDocument(found, store, { baseUrl: config.baseUrl, now }),
    beside: async () => ({ charts: chartsOfFigures(found.total, rows[0]?.timeZone ?? DEFAULT_TIME_ZONE) }),
  };
}

export function createHealth({ sql, config }: Pick<WebhookDeps, 'sql' | 'config'>) {
  const { baseUrl } = config;
  return {
    health: guarded({
      summary: 'The health of this webhook in the last 24 hours, 7 or 30 days',
      scopes: READ_SCOPES,
      modifiers: ['period'],
      handle: async (request) => {
        await webhookOf(sql, request);
        const key = keyOf(request);
        const { now } = request;
        const period = readPeriod(request.query);
        const health = await readHealth(sql, key, { now, period });
        const { row } = health;
        return {
          status: 200,
          document: healthDocument(health, { baseUrl, now }),
          beside: async () => ({ charts: chartsOfFigures(health.figures, row.timeZone) }),
          advice: async () => adviceOfWebhook({ sql, config }, row, now),
        };
      },
    }),
    overview: guarded({
      summary: 'The health of all webhooks of this store in the last 24 hours, 7 or 30 days, worst first',
      scopes: READ_SCOPES,
      modifiers: ['period'],
      handle: async (request) => {
        const store = { ...storeOfAddress(request), app: appOf(request.principal) };
        const period = readPeriod(request.query);
        return { status: 200, ...(await readOverview({ sql, config }, store, { now: request.now, period })) };
      },
    }),
  };
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

const durationsTitle = 'Response time of your endpoint';

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

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const shownAt = (at: Date, timeZone: string): Markup | undefined => shownDateOf(formatDate(at, timeZone));

/** Links to the forms on the page of the webhook, whose ids are the names of their actions. */
const linksOf = (address: string) => ({
  change: html`<a href="${address}#change">change this webhook</a>`,
  test: html`<a href="${address}#test">send a sample event</a>`,
  enable: html`<a href="${address}#enable">enable this webhook</a>`,
  recover: html`<a href="${address}#recover">recover what was missed</a>`,
});

const afterRepair = ({ test, enable, recover }: ReturnType<typeof linksOf>): Markup =>
  html`After the repair, ${test} to check that it works. Then ${enable}. Finally ${recover}: missed events are not sent
  automatically.`;

const accessEnded = ({ enable, recover }: ReturnType<typeof linksOf>): Markup =>
  html`Halcyon disabled this webhook because the app that created it no longer has access to the store. To enable it,
  connect the app again. Then ${enable}, and finally ${recover}.`;

const whileSuspended = ({ recover }: ReturnType<typeof linksOf>): Markup =>
  html`The operator of this service has suspended the store or the app of this webhook: nothing is sent. The webhook is
  enabled again when the suspension ends. Then ${recover}: missed events are not sent automatically.`;

function failures(
  { consecutiveFailures, firstFailureAt, outcome, responseCode }: FailureState,
  timeZone: string,
): Markup {
  const reason = outcome === null ? null : reasonOf({ outcome, responseCode });
  const many = consecutiveFailures === 1 ? 'One attempt' : `${consecutiveFailures} consecutive attempts`;
  return html`${many} failed${firstFailureAt !== null && html`, the first on ${shownAt(firstFailureAt, timeZone)}`}.
  ${reason !== null && html`Last failure: ${reason.text}`}`;
}

/**
 * Suggests starts of a recovery, the likeliest one first. The first failure counts from an hour before it, since events precede their
 * attempts, and from an hour after the oldest stored event, which is there while the form is filled in. Arrived events are not resent.
 */
function startsOf(
  { firstFailureAt, dateCreated }: FailureState,
  { timeZone, now, retentionDays }: { timeZone: string; now: Date; retentionDays: number },
): readonly Suggestion[] {
  const earliestMs = Math.max(dateCreated.getTime(), now.getTime() - retentionDays * DAY_MS + HOUR_MS);
  const suggestion = (label: string, ms: number): Suggestion => ({ label, value: formatDate(new Date(ms), timeZone) });
  const midnight = parseDate(formatDate(now, timeZone).slice(0, 'yyyy-mm-dd'.length), timeZone);
  return [
    ...(firstFailureAt === null
      ? []
      : [suggestion('Since it began to fail', Math.max(firstFailureAt.getTime() - HOUR_MS, earliestMs))]),
    suggestion('The last hour', now.getTime() - HOUR_MS),
    ...(midnight === undefined ? [] : [suggestion('Today', midnight.getTime())]),
  ];
}

function paragraphsOf(
  webhook: AdvisedWebhook,
  trouble: FailureState,
  { now, address }: { now: Date; address: string },
): Markup[] {
  const { timeZone, pausedUntil } = webhook;
  const links = linksOf(address);
  const lack = lackReason(webhook);
  if (lack !== null) return [html`${lack} To add it, ${links.change}.`];
  switch (stateOf(webhook, now)) {
    case 'inactive':
      if (webhook.inactiveReason === 'access_ended') return [accessEnded(links)];
      if (webhook.inactiveReason === 'suspended') return [whileSuspended(links)];
      return trouble.wasAutoDisabled
        ? [html`Halcyon disabled this webhook. ${failures(trouble, timeZone)}`, afterRepair(links)]
        : [html`This webhook is disabled: nothing is sent until you ${links.enable}.`];
    case 'paused':
      return pausedUntil === null
        ? []
        : [
            html`Your endpoint requested a pause (Retry-After): nothing is sent until ${shownAt(pausedUntil, timeZone)}.`,
          ];
    case 'failing':
      return [
        html`${failures(trouble, timeZone)}`,
        html`Retries continue automatically. See <a href="${address}/statuses">deliveries</a> for each request and
          response.`,
      ];
    case 'ok':
      return trouble.wasAutoDisabled
        ? [html`This webhook is enabled again. Events that it missed are not sent automatically: ${links.recover}.`]
        : [];
  }
}

/**
 * Returns the advice on the page of a webhook: if it fails or is disabled, the cause, since when, and the next steps; and starts of a
 * recovery.
 */
export async function adviceOfWebhook(
  { sql, config }: Pick<WebhookDeps, 'sql' | 'config'>,
  webhook: AdvisedWebhook,
  now: Date,
): Promise<Advice | undefined> {
  const trouble = await findFailureState(sql, shardOf(webhook.id), webhook.id);
  if (trouble === undefined) return undefined;
  // A path, because pages may have another host than the API.
  const address = new URL(addressOfWebhook(webhook.id, config.baseUrl)).pathname;
  const paragraphs = paragraphsOf(webhook, trouble, { now, address });
  const { timeZone } = webhook;
  return {
    paragraphs,
    suggested: { since: startsOf(trouble, { timeZone, now, retentionDays: config.database.retentionDays }) },
  };
}

/** Webhooks of each kind whose events are counted; those of a store are at most 100. */
const EXAMINED_MAX = 25;
const EXAMINED_OF_STORE_MAX = 100;
/** Days before today whose failed deliveries choose the webhooks. */
const DAYS = 1;

/** `notArrived` and `waiting` (pending deliveries) are counted up to 1,000. `since`: the date of the oldest event that has not arrived, or of the first failure. */
export type Failing = Pick<
  FailingRow,
  'id' | 'name' | 'storeId' | 'storeName' | 'client' | 'url' | 'isActive' | 'inactiveReason'
> & {
  state: WebhookState;
  lastAttempt: Health['lastAttempt'];
  notArrived: number;
  waiting: number;
  retrying: number;
  since: Date | null;
};

const earliest = (...dates: readonly (Date | null)[]): Date | null =>
  dates.reduce((first, date) => (first === null || (date !== null && date < first) ? date : first), null);

async function countShard(tx: Queryable, shard: number, rows: readonly FailingRow[], now: Date): Promise<Failing[]> {
  const ids = rows.map(({ id }) => id);
  const failed = new Map(
    (await listNotArrived(tx, shard, ids, NOT_ARRIVED_COUNTED_MAX)).map((row) => [row.webhookId, row]),
  );
  const pending = new Map(
    (await listPending(tx, shard, rows, NOT_ARRIVED_COUNTED_MAX)).map((row) => [row.webhookId, row]),
  );
  const last = lastAttempts(await listLastOutcomes(tx, shard, ids));
  return rows.map((row) => ({
    ...row,
    state: stateOf(row, now),
    lastAttempt: last.get(row.id) ?? null,
    notArrived: failed.get(row.id)?.count ?? 0,
    waiting: pending.get(row.id)?.pending ?? 0,
    retrying: pending.get(row.id)?.retrying ?? 0,
    since: earliest(row.failingSince, failed.get(row.id)?.since ?? null),
  }));
}

/** The most events that wait or have failed first. */
export function byMissing(a: Failing, b: Failing): number {
  return b.notArrived + b.waiting - (a.notArrived + a.waiting) || a.id - b.id;
}

/** Returns the webhooks of all stores that fail most, or those of one store, the worst first. Throws the errors of `Search`. */
export type ReadFailing = (now: Date, store?: StoreKey) => Promise<Failing[]>;

/** All statements share the time limit of a search and a read-only transaction. */
export function createFailing(search: Search): ReadFailing {
  return (now, store) => {
    const limit = store === undefined ? EXAMINED_MAX : EXAMINED_OF_STORE_MAX;
    return search(0, { offset: 0, limit, order: [], filters: [] }, async (tx) => {
      const rows = await listFailing(tx, { fromId: firstIdOfDay(dayOf(now) - DAYS), limit }, store);
      const counted: Failing[] = [];
      for (const [shard, ofShard] of Map.groupBy(rows, (row) => row.shard))
        counted.push(...(await countShard(tx, shard, ofShard, now)));
      return counted.toSorted(byMissing);
    });
  };
}
