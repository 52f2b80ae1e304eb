/** Renders the content of a document: its properties, and its embedded documents recursively. */
import type { Document, Embedded, Kind, Naming, Property, ViewType } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { exactDateOf, clockOf, dayOfDate } from '../shown-date.ts';
import { leadsHere } from '../paging.ts';
import { anchor, hrefOf, linkRow, linkTo } from './links.ts';
import { isReference, table, type RowDetails } from './table.ts';
import { cellValue, fitsCell, isState, isUnset, kindOf, plainText, shownCode, shownValue } from './property-values.ts';
import { inSentence, labelOf } from './words.ts';
import { parseAddress, searchPart } from './search-form.ts';

// Renders documents in chronological order, each in full.

/** Date, result and duration are shown in each entry, even if they equal those of the parent. */
const isAlwaysShown = (property: Property): boolean =>
  isState(property) || property.unit !== undefined || kindOf(property) === 'date';

/** Returns the document without ids, and without short values and links that the parent shows already. */
function withoutRepeated(document: Document, parent: Document): Document {
  const shownAbove = new Map(parent.properties.filter(fitsCell).map(({ name, value }) => [name, value]));
  const hrefs = new Set(parent.links.map(({ href }) => href));
  const isRepeated = ({ name, value }: Property): boolean => shownAbove.has(name) && shownAbove.get(name) === value;
  return {
    ...document,
    properties: document.properties.filter(
      (property) =>
        property.name !== 'id' && !isUnset(property.value) && (isAlwaysShown(property) || !isRepeated(property)),
    ),
    links: document.links.filter(({ href }) => !hrefs.has(href)),
  };
}

type Place = 'head' | 'text' | 'fold';

/** Returns the place of a property: result and date in the head line; sentences in the text; long values folded. */
function placeOf(property: Property): Place {
  if (isState(property)) return 'head';
  switch (kindOf(property)) {
    case 'date':
    case 'number':
    case 'count':
    case 'money':
    case 'boolean':
    case 'enumeration':
    case 'progress':
      return 'head';
    case 'code':
    case 'json':
    case 'secret':
    case 'trend':
      return 'fold';
    case 'text':
    case 'url':
      return 'text';
  }
}

/** Dates have seconds, for comparison with logs. */
const valueOf = (property: Property): Markup | string =>
  (kindOf(property) === 'date' ? exactDateOf(plainText(property.value)) : undefined) ?? shownValue(property);

/** Renders a property of the head line; numbers without unit are preceded by their name. */
function headItem(property: Property): Markup {
  const value = valueOf(property);
  const isNamed = !isState(property) && kindOf(property) !== 'date' && property.unit === undefined;
  return isNamed
    ? html`<span><span class="soft">${labelOf(property.name)}</span> ${value}</span>`
    : html`<span>${value}</span>`;
}

/** Returns the rank in the head line: result, date, duration, others. */
function rankOf(property: Property): number {
  if (isState(property)) return 0;
  if (kindOf(property) === 'date') return 1;
  return property.unit === undefined ? 3 : 2;
}

const fold = (property: Property): Markup =>
  html`<details class="fold">
    <summary>${labelOf(property.name)}</summary>
    ${property.kind === 'code' && typeof property.value === 'string' ? shownCode(property.value) : shownValue(property)}
  </details>`;

function entry(document: Document, naming: Naming): Markup {
  const places = Map.groupBy(document.properties, placeOf);
  const head = (places.get('head') ?? []).toSorted((one, other) => rankOf(one) - rankOf(other));
  return html`<li>
    <p class="moment">${head.map(headItem)}</p>
    ${(places.get('text') ?? []).map((property) => html`<p>${shownValue(property)}</p>`)}
    ${(places.get('fold') ?? []).map(fold)} ${linkRow(document, naming)}
  </li>`;
}

/** Renders the timeline. `above` is the document that embeds the entries. */
function timeline(documents: readonly Document[], parent: Document, naming: Naming): Markup {
  return html`<ol class="timeline">
    ${documents.map((document) => entry(withoutRepeated(document, parent), naming))}
  </ol>`;
}

/** The deepest heading of HTML. */
const LEVEL_MAX = 6;

function heading(level: number, text: string | Markup): Markup {
  if (level <= 2) return html`<h2>${text}</h2>`;
  if (level === 3) return html`<h3>${text}</h3>`;
  if (level === 4) return html`<h4>${text}</h4>`;
  return level < LEVEL_MAX ? html`<h5>${text}</h5>` : html`<h6>${text}</h6>`;
}

/**
 * Returns whether the value is not set. A null secret may exist but not be visible to the reader, so it is shown on its
 * own.
 */
const isUnsetValue = ({ kind, value }: Property): boolean => kind !== 'secret' && isUnset(value);

/** From this number on, unset properties are listed together. */
const UNSET_TOGETHER_MIN = 2;

/** From this number on, a list of numbers only is shown side by side. */
const FIGURES_MIN = 4;
const areFigures = (properties: readonly Property[]): boolean =>
  properties.length >= FIGURES_MIN &&
  properties.every(({ kind }) => kind === 'number' || kind === 'count') &&
  properties.some(({ value }) => !isUnset(value));

const figures = (properties: readonly Property[]): Markup =>
  html`<dl class="figures">
    ${properties.map(
      (property) =>
        html`<div>
          <dt>${labelOf(property.name)}</dt>
          <dd>${cellValue(property)}</dd>
        </div>`,
    )}
  </dl>`;

/** The order in which a person reads kinds of values; structures and secrets are long. */
const READING: readonly (readonly Kind[])[] = [
  ['text', 'url', 'enumeration', 'progress', 'trend'],
  ['money'],
  ['number', 'count', 'boolean'],
  ['date'],
  ['code', 'json', 'secret'],
];

/** Returns the place of a property among those of a document: ids and references say the least to a person. */
const readingPlace = (property: Property): number =>
  property.name === 'id' || isReference(property)
    ? READING.length
    : READING.findIndex((kinds) => kinds.includes(kindOf(property)));

/** Renders properties as names and values, in the order in which a person reads them. */
export function propertyList(given: readonly Property[]): Markup | false {
  if (areFigures(given)) return figures(given);
  const properties = given.toSorted((one, other) => readingPlace(one) - readingPlace(other));
  const unset = properties.filter(isUnsetValue);
  const isListed = (property: Property): boolean => unset.length < UNSET_TOGETHER_MIN || !isUnsetValue(property);
  return (
    properties.length > 0 &&
    html`<dl>
      ${properties.filter(isListed).map(
        (property) =>
          html`<dt>${labelOf(property.name)}</dt>
            <dd>${shownValue(property)}</dd>`,
      )}
      ${
        unset.length >= UNSET_TOGETHER_MIN &&
        html`<dt>Not set</dt>
          <dd class="soft">${unset.map(({ name }) => inSentence(name)).join(', ')}</dd>`
      }
    </dl>`
  );
}

/** Renders the embedded documents of a relation; `above` is the document that embeds them. */
export function part(embedded: Embedded, parent: Document, naming: Naming, level = 2, of?: string): Markup {
  return embedded.isTimeline === true && embedded.documents.length > 0
    ? html`${heading(level, embedded.title ?? labelOf(embedded.rel))} ${timeline(embedded.documents, parent, naming)}`
    : section(embedded, naming, level, of);
}

/** Renders an embedded document without forms, which it has on its own page. */
const inner = (document: Document, naming: Naming, level: number, name: string): Markup =>
  html`${propertyList(document.properties)} ${linkRow(document, naming)}
  ${document.embedded.map((embedded) => part(embedded, document, naming, level, name))}`;

/** Renders several documents as a table. */
function documentTable({ documents }: Embedded, naming: Naming, label: string, level: number): Markup {
  const more = (document: Document, { name, properties, hasPage }: RowDetails): Markup | false => {
    const hasMore = properties.length > 0 || document.embedded.some((below) => below.documents.length > 0);
    if (!hasMore) return false;
    return inner({ ...document, properties, links: hasPage ? [] : document.links }, naming, level + 1, name);
  };
  return table(documents, naming, { label, more });
}

/**
 * Renders one relation with its heading. `of` is the name of its parent, if others on the page may have the same
 * relation.
 */
function section(embedded: Embedded, naming: Naming, level: number, of?: string): Markup {
  const { rel, documents, single } = embedded;
  const [only] = documents;
  const title = embedded.title ?? labelOf(rel);
  const path = embedded.href === undefined ? undefined : hrefOf(embedded.href, naming);
  const head = heading(level, path === undefined ? title : anchor(path, title));
  if (only === undefined)
    return html`${head}
      <p class="soft">None</p>`;
  if (single === true) return html`${head} ${inner(only, naming, level + 1, title)}`;
  return html`${head} ${documentTable(embedded, naming, of === undefined ? title : `${title} of ${of}`, level)}`;
}

// Renders a page of a collection: search, table, pager, and a message if it is empty.

/** A collection: the number of all items (the kind `count`), and the embedded items of this page. */
export type Collection = { items: Embedded; total: number; offset: number };

function wholeNumberOf(property: Property | undefined): number | undefined {
  const value = property?.value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

/** Returns the document as a collection; undefined if it is none. */
export function collectionOf({ embedded, properties }: Document): Collection | undefined {
  const [items] = embedded;
  const total = wholeNumberOf(properties.find(({ kind }) => kind === 'count'));
  if (items === undefined || items.single === true || total === undefined) return undefined;
  return { items, total, offset: wholeNumberOf(properties.find(({ name }) => name === 'offset')) ?? 0 };
}

const wholeNumber = new Intl.NumberFormat('en');

/** Returns the position of the page: `21–40 of 95`. */
function position({ items: { documents }, total, offset }: Collection): string {
  const all = wholeNumber.format(total);
  if (documents.length === 0) return `Beyond the last of ${all}`;
  return `${wholeNumber.format(offset + 1)}–${wholeNumber.format(offset + documents.length)} of ${all}`;
}

/** Renders links to other pages, if there are any: at an end the link is that of the page itself. */
export function pager(document: Document, collection: Collection, naming: Naming): Markup {
  const pageLink = (rel: string, text: string): Markup | false => {
    const link = linkTo(document, rel);
    const href = link === undefined || leadsHere(document, link.href) ? undefined : hrefOf(link.href, naming);
    return href !== undefined && html`<a rel="${rel}" href="${href}">${text}</a>`;
  };
  const [previous, next] = [pageLink('prev', 'Previous'), pageLink('next', 'Next')];
  const words = html`<span class="soft">${position(collection)}</span>`;
  if (previous === false && next === false) return html`<p class="pager">${words}</p>`;
  // The first page may have an address without a query, which differs from its `first` link, so `prev` and `next`
  // decide.
  return html`<nav class="pager" aria-label="Pages">
    ${previous !== false && pageLink('first', 'First')}${previous}${words}${next}${next !== false && pageLink('last', 'Last')}
  </nav>`;
}

/** Renders the message of an empty collection. `canCreate`: a form below creates the first item. */
function empty(document: Document, { items: { rel } }: Collection, naming: Naming, canCreate: boolean): Markup {
  const itemsName = inSentence(rel);
  const { path, filters } = parseAddress(document, naming);
  if (filters.length > 0) {
    return html`<div class="empty">
      <p>No ${itemsName} match these filters.</p>
      <p><a href="${path}">Show all</a></p>
    </div>`;
  }
  return html`<div class="empty">
    <p>There are no ${itemsName} yet.</p>
    <p class="soft">${canCreate ? 'Create the first one below.' : 'They will be listed here.'}</p>
  </div>`;
}

/** Renders the items of a collection with search and pager, or the message that there are none. */
export function collectionPage(
  document: Document,
  collection: Collection,
  naming: Naming,
  { label, canCreate, liveAddress }: { label: string; canCreate: boolean; liveAddress: string | undefined },
): Markup {
  const live = (content: Markup): Markup =>
    liveAddress === undefined ? content : html`<div data-live="${liveAddress}">${content}</div>`;
  if (collection.total === 0) {
    const { filters } = parseAddress(document, naming);
    // An empty collection without filters has no search.
    return html`${filters.length > 0 && searchPart(document, naming)}
    ${live(empty(document, collection, naming, canCreate))}`;
  }
  const { items } = collection;
  const list = html`${items.documents.length > 0 && documentTable(items, naming, label, 1)}
  ${pager(document, collection, naming)}`;
  return html`${searchPart(document, naming)} ${live(list)}`;
}

/**
 * Returns the views of the items of a collection; undefined if an item has none, or if the request has an order of its own, which need
 * not be that of dates.
 */
export function datedItems<Item>(
  document: Document,
  naming: Naming,
  type: ViewType<Item>,
): readonly Item[] | undefined {
  const isOrdered = parseAddress(document, naming).parameters.some(([name]) => name === 'order');
  return isOrdered ? undefined : itemsOf(document, type);
}

/** Returns the views of the items of a collection; undefined for another document, or if an item has none. */
export function itemsOf<Item>(document: Document, type: ViewType<Item>): readonly Item[] | undefined {
  const documents = collectionOf(document)?.items.documents;
  const items = documents?.flatMap((item) => type.of(item) ?? []);
  return items?.length === documents?.length ? items : undefined;
}

/** Renders items in the order of their dates, with their times; `dateOf` returns a date as in the API. */
export function byDay<Item>(
  items: readonly Item[],
  dateOf: (item: Item) => string,
  render: (item: Item, time: string) => Markup,
): Markup {
  const days: { day: string; items: Item[] }[] = [];
  for (const item of items) {
    const day = dayOfDate(dateOf(item));
    const last = days.at(-1);
    if (last?.day === day) last.items.push(item);
    else days.push({ day, items: [item] });
  }
  return html`${days.map(
    ({ day, items: ofDay }) =>
      html`<h2>${day}</h2>
        <ol class="log">
          ${ofDay.map((item) => {
            const date = dateOf(item);
            const time = clockOf(date);
            return html`<li>
              <time datetime="${date}">${time}</time>
              <div>${render(item, time)}</div>
            </li>`;
          })}
        </ol>`,
  )}`;
}
