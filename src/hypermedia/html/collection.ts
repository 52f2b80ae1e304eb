/** A page of a collection: its table, where in the whole it stands, and what to do where there is nothing. */
import type { Document, Embedded, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { leadsHere } from '../page.ts';
import { several } from './content.ts';
import { hrefOf, linkTo } from './links.ts';
import { askedOf, searchPart } from './search.ts';
import { inSentence } from './words.ts';

/** A collection says how many items there are in all (the kind `count`), and embeds those of this page. */
export type Collection = { items: Embedded; total: number; offset: number };

const wholeNumberOf = (property: Property | undefined): number | undefined => {
  const value = property?.value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
};

/** The document as a collection; undefined where it is none. */
export const collectionOf = ({ embedded, properties }: Document): Collection | undefined => {
  const [items] = embedded;
  const total = wholeNumberOf(properties.find(({ kind }) => kind === 'count'));
  if (items === undefined || items.single === true || total === undefined) return undefined;
  return { items, total, offset: wholeNumberOf(properties.find(({ name }) => name === 'offset')) ?? 0 };
};

const wholeNumber = new Intl.NumberFormat('en');

/** Where this page stands. */
const place = ({ items: { documents }, total, offset }: Collection): string => {
  const all = wholeNumber.format(total);
  if (documents.length === 0) return `Past the end of ${all}`;
  return `${wholeNumber.format(offset + 1)}–${wholeNumber.format(offset + documents.length)} of ${all}`;
};

/** The ways to other pages, where there are any: at an end the link is that of the page itself. */
const pager = (document: Document, collection: Collection, naming: Naming): Markup => {
  const way = (rel: string, text: string): Markup | false => {
    const link = linkTo(document, rel);
    const href = link === undefined || leadsHere(document, link.href) ? undefined : hrefOf(link.href, naming);
    return href !== undefined && html`<a rel="${rel}" href="${href}">${text}</a>`;
  };
  const [previous, next] = [way('prev', 'Previous'), way('next', 'Next')];
  const words = html`<span class="soft">${place(collection)}</span>`;
  if (previous === false && next === false) return html`<p class="pager">${words}</p>`;
  // Without a query the first page's own address is another than that of the first page: its neighbours tell where it is.
  return html`<nav class="pager" aria-label="Pages">
    ${previous !== false && way('first', 'First')}${previous}${words}${next}${next !== false && way('last', 'Last')}
  </nav>`;
};

/** Nothing, and how that changes. `canCreate` where a form below makes the first one. */
const empty = (document: Document, { items: { rel } }: Collection, naming: Naming, canCreate: boolean): Markup => {
  const things = inSentence(rel);
  const { path, filters } = askedOf(document, naming);
  // Where there is nothing at all, nothing is to be searched.
  if (filters.length > 0) {
    return html`${searchPart(document, naming)}
      <div class="empty">
        <p>No ${things} are as you asked for them.</p>
        <p><a href="${path}">Show all</a></p>
      </div>`;
  }
  return html`<div class="empty">
    <p>There are no ${things} yet.</p>
    <p class="soft">${canCreate ? 'Create the first one below.' : 'As soon as there are, they stand here.'}</p>
  </div>`;
};

/** The items of a collection with their search and their pager, or a word about there being none. */
export const collectionPage = (
  document: Document,
  collection: Collection,
  naming: Naming,
  { label, canCreate }: { label: string; canCreate: boolean },
): Markup => {
  if (collection.total === 0) return empty(document, collection, naming, canCreate);
  const { items } = collection;
  return html`${searchPart(document, naming)} ${items.documents.length > 0 && several(items, naming, label, 1)}
  ${pager(document, collection, naming)}`;
};
