/** Renders a page of a collection: search, table, pager, and a message if it is empty. */
import type { Document, Embedded, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { leadsHere } from '../paging.ts';
import { documentTable } from './content.ts';
import { hrefOf, linkTo } from './links.ts';
import { parseAddress, searchPart } from './search-form.ts';
import { inSentence } from './words.ts';

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
