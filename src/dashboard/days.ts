/** A list in the order of dates, below the headings of its days. */
import type { Document, Naming, ViewType } from '#hypermedia/document.ts';
import { collectionOf } from '#hypermedia/html/content.ts';
import { parseAddress } from '#hypermedia/html/search-form.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { clockOf, dayOfDate } from '#hypermedia/shown-date.ts';

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
