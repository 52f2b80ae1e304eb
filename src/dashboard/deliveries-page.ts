/**
 * The page of the deliveries of a webhook or of a whole store: tabs by state, a search for a resource, and what each delivery waits for or
 * failed with. One button retries all pending deliveries of the list, or recovers the failed ones.
 */
import type { ShownDocument } from '#http/services.ts';
import type { Document, Naming, Action } from '#hypermedia/document.ts';
import { parseDate, formatDate } from '#hypermedia/date.ts';
import { collectionOf, pager, byDay, datedItems } from '#hypermedia/html/content.ts';
import { crumbs, hrefOf, linkTo, addressWith } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/document-page.ts';
import { parseAddress, searchPart, searchMark, select } from '#hypermedia/html/search-form.ts';
import { badge } from '#hypermedia/html/property-values.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { liveAttribute } from '#hypermedia/shell.ts';
import { shownMoment } from '#hypermedia/shown-date.ts';
import { dayOf, startOfDay } from '#core/ids.ts';
import { fixedForm, type Context } from '#hypermedia/html/form.ts';
import { listView } from '#http/list-operation.ts';
import { addressOfDelivery, deliveryView, type DeliveryView } from '#webhooks/history/history-documents.ts';
import type { Count, DeliveryCounts } from './lists-sql.ts';

type Parameters = readonly (readonly [name: string, value: string])[];

const SECOND_MS = 1_000;

/** The filters of the deliveries that the health of a webhook counts: their events did not arrive, and can be sent again. */
export const NOT_ARRIVED = { status: 'failed', not_arrived: '1' } as const;

/** Filters that the buttons imply. */
const IMPLIED: ReadonlySet<string> = new Set([...Object.keys(NOT_ARRIVED), 'webhook_id']);
/** Filters of deliveries that are fields of a recovery, with the same values. */
const SHARED: ReadonlySet<string> = new Set(['event', 'resource_id', 'response_code', 'response_body']);
const [AFTER, BEFORE] = ['date_created:greaterthan', 'date_created:lessthan'];

/**
 * Returns the fields of a recovery of the failed deliveries that these filters choose; undefined if it cannot be limited to them.
 * Without a beginning it is that of the oldest events, which are kept for `retentionDays`.
 */
export function recoveryFields(
  filters: Parameters,
  { now, retentionDays }: { now: Date; retentionDays: number },
): Readonly<Record<string, string>> | undefined {
  const isImplied = ([name, value]: Parameters[number]): boolean =>
    IMPLIED.has(name) && (name !== 'not_arrived' || value === NOT_ARRIVED[name]);
  const given = new Map(filters.filter((filter) => !isImplied(filter)));
  const after = parseDate(given.get(AFTER) ?? '');
  const until = given.get(BEFORE);
  if (given.has(AFTER) && after === undefined) return undefined;
  given.delete(AFTER);
  given.delete(BEFORE);
  if ([...given].some(([name, value]) => !SHARED.has(name) || value === '')) return undefined;
  // A recovery is of one kind of event, or of all.
  if (given.get('event')?.includes('*')) return undefined;
  const since = after === undefined ? startOfDay(dayOf(now) - retentionDays) : new Date(after.getTime() + SECOND_MS);
  return {
    only_failed: '1',
    since: formatDate(since, 'UTC'),
    ...(until !== undefined && { until }),
    ...Object.fromEntries(given),
  };
}

/** Returns the address of the webhook whose deliveries the list shows; undefined for a list of several. */
function webhookAddress(document: Document, naming: Naming, filters: Parameters): string | undefined {
  const chosen = Number(filters.find(([name]) => name === 'webhook_id')?.[1]);
  return linkTo(document, 'webhook')?.href ?? (chosen > 0 ? `${naming.baseUrl}/webhooks/${chosen}` : undefined);
}

/** Returns an action of the webhook, for a form whose fields are fixed. */
export function actionOf(webhook: string, name: string): Action {
  return { name, title: '', method: 'POST', href: `${webhook}/${name}`, fields: [] };
}

/** Renders the button for all deliveries of the list; false for a list of several states or without a session. */
function bulkAction(
  { document, naming, view }: Context,
  filters: Parameters,
  context: { now: Date; retentionDays: number },
): Markup | false {
  const status = filters.find(([name]) => name === 'status')?.[1];
  if (view.session === undefined || (status !== 'failed' && status !== 'pending')) return false;
  const webhook = webhookAddress(document, naming, filters);
  if (webhook === undefined)
    return html`<p class="soft">
      Choose a webhook to ${status === 'failed' ? 'send these again' : 'retry these now'}.
    </p>`;
  if (status === 'pending') {
    const isWhole = filters.every(([name]) => IMPLIED.has(name));
    const button = html`<button type="submit" class="quiet">Retry pending deliveries of this webhook now</button>
      ${!isWhole && html`<p class="soft">Not only those that are shown here.</p>`}`;
    return fixedForm(actionOf(webhook, 'retry_pending'), { values: {}, button }, { document, naming, view });
  }
  const values = recoveryFields(filters, context);
  if (values === undefined)
    return html`<p><a href="${hrefOf(webhook, naming) ?? ''}#recover">Send what failed again …</a></p>`;
  const isExact = filters.some(([name]) => name === 'not_arrived');
  const button = html`<button type="submit" class="quiet">Send these again</button> ${
      !isExact &&
      html`<p class="soft">
        Except events that have been delivered or are pending, test deliveries, and events that the webhook does not
        subscribe to.
      </p>`
    }`;
  return fixedForm(actionOf(webhook, 'recover'), { values, button }, { document, naming, view });
}

type DatedDelivery = DeliveryView & { dateCreated: string };
export type ListedDeliveries = { deliveries: readonly DatedDelivery[]; webhookId: number | null };

/**
 * Returns the deliveries of the document; undefined if it lists others than those of a webhook or a store, only parts of them, or one
 * whose event has expired and has no date.
 */
export function deliveriesOf(document: Document, naming: Naming): ListedDeliveries | undefined {
  const list = listView.of(document);
  const deliveries = list && datedItems(document, naming, deliveryView);
  if (deliveries === undefined || list === undefined) return undefined;
  const dated = deliveries.flatMap((delivery) =>
    delivery.dateCreated === null ? [] : [{ ...delivery, dateCreated: delivery.dateCreated }],
  );
  return dated.length < deliveries.length ? undefined : { deliveries: dated, webhookId: list.webhookId };
}

/** Returns the state in words, with its tone. */
export function stateOf({
  status,
  attempts,
  resentAs,
}: Pick<DeliveryView, 'status' | 'attempts' | 'resentAs'>): [words: string, tone: Tone] {
  if (status === 'successful') return ['Delivered', 'fine'];
  if (status === 'failed') return resentAs === null ? ['Failed', 'broken'] : ['Sent again', 'plain'];
  return attempts === 0 ? ['Queued', 'plain'] : ['Retrying', ''];
}

/** `attemptsMax`: lists do not have it. */
type WaitingDelivery = Pick<DeliveryView, 'status' | 'attempts' | 'dateNext'> & { attemptsMax?: number | null };

/** Returns when the next attempt of a pending delivery is; undefined for other deliveries. */
export function nextAttempt(
  { status, attempts, attemptsMax = null, dateNext }: WaitingDelivery,
  now: Date,
): Markup | undefined {
  if (status !== 'pending') return undefined;
  const isKnown = attemptsMax !== null && attempts < attemptsMax;
  const which = isKnown ? `Attempt ${attempts + 1} of ${attemptsMax}` : `Attempt ${attempts + 1}`;
  const at = nextTime({ dateNext }, now);
  return at === undefined ? html`${which} is next` : html`${which}: ${at}`;
}

/** Renders the time of a next attempt; undefined if there is none, or if the attempt is due. */
export function nextTime({ dateNext }: Pick<DeliveryView, 'dateNext'>, now: Date): Markup | undefined {
  const due = parseDate(dateNext ?? '');
  return dateNext === null || due === undefined || due <= now ? undefined : shownMoment(dateNext);
}

type Webhooks = ReadonlyMap<number, string> | undefined;
type RowContext = { webhooks: Webhooks; naming: Naming; now: Date };

function row(delivery: DeliveryView, { webhooks, naming, now }: RowContext): Markup {
  const { id, title, webhookId, attempts, reason } = delivery;
  const href = hrefOf(addressOfDelivery(id, { id: webhookId }, naming.baseUrl), naming);
  const webhook = webhooks?.get(webhookId);
  const [words, tone] = stateOf(delivery);
  const next = nextAttempt(delivery, now);
  const notes = [
    webhook !== undefined && html`To ${webhook}.`,
    reason !== null && html`<span title="${reason.text}">${reason.what}.</span>`,
    next === undefined ? attempts > 1 && html`${attempts} attempts.` : html`${next}.`,
  ].filter((note) => note !== false);
  return html`<p class="entry"><a href="${href}">${title}</a> ${badge(words, tone)}</p>
    ${notes.length > 0 && html`<p class="soft">${notes.map((note) => html`${note} `)}</p>`}`;
}

type Tab = { label: string; filters: Readonly<Record<string, string>>; counted: keyof DeliveryCounts };

/** The tabs: their labels, the filters of the API that each stands for, and the count that it shows. */
const TABS: readonly Tab[] = [
  { label: 'All', filters: {}, counted: 'all' },
  { label: 'Queued', filters: { status: 'pending', attempts: '0' }, counted: 'queued' },
  { label: 'Retrying', filters: { status: 'pending', 'attempts:greaterthan': '0' }, counted: 'retrying' },
  { label: 'Not arrived', filters: NOT_ARRIVED, counted: 'notArrived' },
  { label: 'Delivered', filters: { status: 'successful' }, counted: 'delivered' },
];
const OF_PAGE: ReadonlySet<string> = new Set(['offset', 'limit']);
const OF_TABS: ReadonlySet<string> = new Set(TABS.flatMap(({ filters }) => Object.keys(filters)));

const countText = ({ count, isMore }: Count): string => `${count.toLocaleString('en')}${isMore ? '+' : ''}`;

/** Returns whether the list has no other filters than those of a tab. */
export function isWholeList({ document, naming }: { document: Document; naming: Naming }): boolean {
  return parseAddress(document, naming).parameters.every(([name]) => OF_PAGE.has(name) || OF_TABS.has(name));
}

/** `counts`: those of the whole list; undefined beside other filters. `total`: that of the list that is shown. */
function tabs(path: string, parameters: Parameters, counts: DeliveryCounts | undefined, total: number): Markup {
  const chosen = parameters.filter(([name]) => OF_TABS.has(name));
  const kept = parameters.filter(([name]) => name !== 'offset' && !OF_TABS.has(name));
  const isCurrent = (filters: Tab['filters']): boolean =>
    Object.keys(filters).length === chosen.length && chosen.every(([name, value]) => filters[name] === value);
  return html`<nav class="states" aria-label="Deliveries by state">
    ${TABS.map(({ label, filters, counted }) => {
      const known = counts && isCurrent(filters) ? { count: total, isMore: false } : counts?.[counted];
      const count = known !== undefined && html` <span class="soft">${countText(known)}</span>`;
      return html`<a
        href="${addressWith(path, [...Object.entries(filters), ...kept])}"
        ${isCurrent(filters) && html`aria-current="page"`}
        >${label}${count}</a
      >`;
    })}
  </nav>`;
}

const quickFields = (webhooks: Webhooks): readonly string[] =>
  webhooks === undefined ? ['resource_id'] : ['resource_id', 'webhook_id'];

/** The search for a resource, and in the list of a store for a webhook, beside the form with all filters. */
function resourceSearch(path: string, parameters: Parameters, webhooks: Webhooks): Markup {
  const currentOf = (name: string): string => parameters.find((parameter) => parameter[0] === name)?.[1] ?? '';
  const fields = quickFields(webhooks);
  const kept = parameters.filter(([name]) => name !== 'offset' && !fields.includes(name));
  return html`<form class="filter" method="get" action="${path}" role="search" aria-label="Deliveries of a resource">
    ${searchMark} ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
    <div class="field">
      <label for="of-resource">Order, customer or other ID</label>
      <input type="text" id="of-resource" name="resource_id" value="${currentOf('resource_id')}" spellcheck="false" />
    </div>
    ${
      webhooks !== undefined &&
      html`<div class="field">
        <label for="of-webhook">Webhook</label>
        ${select(
          'of-webhook',
          'webhook_id',
          currentOf('webhook_id'),
          [...webhooks].map(([id, name]) => [String(id), name]),
        )}
      </div>`
    }
    <button type="submit" class="quiet">Find</button>
  </form>`;
}

function empty(path: string, isFiltered: boolean): Markup {
  if (isFiltered)
    return html`<div class="empty">
      <p>No deliveries match these filters.</p>
      <p><a href="${path}">Show all</a></p>
    </div>`;
  return html`<div class="empty">
    <p>There are no deliveries yet.</p>
    <p class="soft">Each event that matches a webhook makes one.</p>
  </div>`;
}

/** Renders the page of these deliveries. `webhooks`: the names of all webhooks in the list of a store. */
export function deliveriesPage(
  { document, naming, view, now }: ShownDocument,
  {
    deliveries,
    counts,
    webhooks,
    liveAddress,
    retentionDays,
  }: Pick<ListedDeliveries, 'deliveries'> & {
    counts: DeliveryCounts | undefined;
    webhooks: Webhooks;
    liveAddress: string;
    retentionDays: number;
  },
): string {
  const collection = collectionOf(document);
  if (collection === undefined) throw new TypeError('The deliveries are no collection');
  const { path, parameters, filters } = parseAddress(document, naming);
  const list =
    collection.total === 0
      ? empty(path, filters.length > 0)
      : html`${byDay(
          deliveries,
          ({ dateCreated }) => dateCreated,
          (delivery) => row(delivery, { webhooks, naming, now }),
        )}
        ${pager(document, collection, naming)}`;
  // Later pages of a list would move under the reader's eyes.
  const live = !parameters.some(([name]) => name === 'offset') && liveAttribute(liveAddress);
  const main = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>Deliveries</h1>
    <div ${live}>${tabs(path, parameters, counts, collection.total)}</div>
    ${resourceSearch(path, parameters, webhooks)}
    ${searchPart(document, naming, { shownElsewhere: new Set([...OF_TABS, ...quickFields(webhooks)]) })}
    ${deliveries.length > 0 && bulkAction({ document, naming, view }, filters, { now, retentionDays })}
    <div ${live}>${list}</div>
  </div>`;
  return renderDesigned({ document, naming, view, main });
}
