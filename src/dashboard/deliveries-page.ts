/** The page of a webhook's deliveries: tabs by state, a search for a resource, and what each delivery waits for or failed with. */
import type { Document, Naming, Value } from '#hypermedia/document.ts';
import { parseDate } from '#hypermedia/date.ts';
import { collectionOf, pager } from '#hypermedia/html/collection.ts';
import { harmless } from '#hypermedia/html/harmless.ts';
import { crumbs, hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/page.ts';
import { addressWith, parseAddress, searchPart, SEARCH } from '#hypermedia/html/search.ts';
import { badge } from '#hypermedia/html/values.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { byDay, datedItems } from './days.ts';

export type ShownDelivery = {
  title: string;
  href: string;
  status: string;
  attempts: number;
  reason: string | null;
  dateNext: Date | undefined;
  date: string;
};

const textOf = (value: Value | undefined): string | null => (typeof value === 'string' ? value : null);

/** Returns the delivery of a document; undefined if `fields` has removed a property that its row needs. */
function deliveryOf(document: Document, naming: Naming): ShownDelivery | undefined {
  const values = new Map(document.properties.map(({ name, value }) => [name, value]));
  if (!values.has('date_next') || !values.has('reason')) return undefined;
  const [status, date, attempts] = [
    textOf(values.get('status')),
    textOf(values.get('date_created')),
    values.get('attempts'),
  ];
  const href = hrefOf(linkTo(document, 'self')?.href ?? '', naming);
  if (status === null || date === null || typeof attempts !== 'number' || href === undefined) return undefined;
  return {
    title: document.title ?? '',
    href,
    status,
    attempts,
    reason: textOf(values.get('reason')),
    dateNext: parseDate(textOf(values.get('date_next')) ?? ''),
    date,
  };
}

/** Returns the deliveries of the document; undefined if it lists others than those of one webhook, or not all of their properties. */
export function deliveriesOf(document: Document, naming: Naming): readonly ShownDelivery[] | undefined {
  const { path } = parseAddress(document, naming);
  if (!/\/webhooks\/\d+\/statuses$/.test(path)) return undefined;
  const documents = datedItems(document, naming);
  if (documents === undefined) return undefined;
  const deliveries = documents.flatMap((one) => deliveryOf(one, naming) ?? []);
  return deliveries.length === documents.length ? deliveries : undefined;
}

const MINUTE_MS = 60_000;
const MINUTES_AN_HOUR = 60;
const HOURS_A_DAY = 24;

/** Returns a duration, rounded: in minutes up to an hour, in hours up to a day, else in days. */
export function roughly(ms: number): string {
  const minutes = Math.max(1, Math.ceil(ms / MINUTE_MS));
  if (minutes <= MINUTES_AN_HOUR) return `${minutes} min`;
  const hours = Math.round(minutes / MINUTES_AN_HOUR);
  return hours <= HOURS_A_DAY ? `${hours} h` : `${Math.round(hours / HOURS_A_DAY)} d`;
}

/** Returns the state in words, with its tone. */
export function stateOf({ status, attempts }: Pick<ShownDelivery, 'status' | 'attempts'>): [words: string, tone: Tone] {
  if (status === 'successful') return ['Delivered', 'fine'];
  if (status === 'failed') return ['Failed', 'broken'];
  return attempts === 0 ? ['Queued', 'plain'] : ['Retrying', ''];
}

/** Returns when the next attempt of a pending delivery is; undefined for other deliveries. */
export function nextAttempt({ status, attempts, dateNext }: ShownDelivery, now: Date): string | undefined {
  if (status !== 'pending') return undefined;
  const waitsMs = dateNext === undefined ? 0 : dateNext.getTime() - now.getTime();
  const which = `Attempt ${attempts + 1}`;
  return waitsMs > 0 ? `${which} in ${roughly(waitsMs)}` : `${which} is next`;
}

/** Returns the first statement of a reason: what happened, without what to do about it. */
export function inShort(reason: string): string {
  return reason.split(/[:.](?=\s|$)/, 1)[0] ?? reason;
}

function row(delivery: ShownDelivery, now: Date): Markup {
  const { title, href, attempts, reason } = delivery;
  const [words, tone] = stateOf(delivery);
  const next = nextAttempt(delivery, now);
  const notes = [
    reason !== null && html`<span title="${harmless(reason)}">${harmless(inShort(reason))}.</span>`,
    next === undefined ? attempts > 1 && html`${attempts} attempts.` : html`${next}.`,
  ].filter((note) => note !== false);
  return html`<p class="entry"><a href="${href}">${harmless(title)}</a> ${badge(words, tone)}</p>
    ${notes.length > 0 && html`<p class="soft">${notes.map((note) => html`${note} `)}</p>`}`;
}

/** The tabs: their labels, and the filters of the API that each stands for. */
const TABS: readonly (readonly [label: string, filters: Readonly<Record<string, string>>])[] = [
  ['All', {}],
  ['Queued', { status: 'pending', attempts: '0' }],
  ['Retrying', { status: 'pending', 'attempts:greaterthan': '0' }],
  ['Failed', { status: 'failed' }],
  ['Delivered', { status: 'successful' }],
];
const OF_TABS: ReadonlySet<string> = new Set(TABS.flatMap(([, filters]) => Object.keys(filters)));

type Parameters = readonly (readonly [name: string, value: string])[];

function tabs(path: string, parameters: Parameters): Markup {
  const chosen = parameters.filter(([name]) => OF_TABS.has(name));
  const kept = parameters.filter(([name]) => name !== 'offset' && !OF_TABS.has(name));
  const isCurrent = (filters: Readonly<Record<string, string>>): boolean =>
    Object.keys(filters).length === chosen.length && chosen.every(([name, value]) => filters[name] === value);
  return html`<nav class="states" aria-label="Deliveries by state">
    ${TABS.map(([label, filters]) => {
      return html`<a
        href="${addressWith(path, [...Object.entries(filters), ...kept])}"
        ${isCurrent(filters) && html`aria-current="page"`}
        >${label}</a
      >`;
    })}
  </nav>`;
}

/** The search for a resource, beside the form with all filters. */
function resourceSearch(path: string, parameters: Parameters): Markup {
  const current = parameters.find(([name]) => name === 'resource_id')?.[1] ?? '';
  const kept = parameters.filter(([name]) => name !== 'offset' && name !== 'resource_id');
  return html`<form class="filter" method="get" action="${path}" role="search" aria-label="Deliveries of a resource">
    <input type="hidden" name="${SEARCH}" value="UTC" />
    ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
    <div class="field">
      <label for="of-resource">Order, customer or other ID</label>
      <input type="text" id="of-resource" name="resource_id" value="${current}" spellcheck="false" />
    </div>
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
    <p class="soft">Each event that matches the webhook makes one.</p>
  </div>`;
}

/** Renders the page of these deliveries. */
export function deliveriesPage(
  { document, naming, view, now }: { document: Document; naming: Naming; view: View; now: Date },
  deliveries: readonly ShownDelivery[],
): string {
  const collection = collectionOf(document);
  if (collection === undefined) throw new TypeError('The deliveries are no collection');
  const { path, parameters, filters } = parseAddress(document, naming);
  const list =
    collection.total === 0
      ? empty(path, filters.length > 0)
      : html`${byDay(deliveries, (delivery) => row(delivery, now))} ${pager(document, collection, naming)}`;
  const main = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>Deliveries</h1>
    ${tabs(path, parameters)} ${resourceSearch(path, parameters)} ${searchPart(document, naming)} ${list}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}
