/** A list in the order of dates, below the headings of its days. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { collectionOf } from '#hypermedia/html/collection.ts';
import { parseAddress } from '#hypermedia/html/search.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { clockOf, dayOfDate } from '#hypermedia/shown-date.ts';

/** Returns the items of a collection; undefined if the request has an order of its own, which need not be that of dates. */
export function datedItems(document: Document, naming: Naming): readonly Document[] | undefined {
  const isOrdered = parseAddress(document, naming).parameters.some(([name]) => name === 'order');
  return isOrdered ? undefined : collectionOf(document)?.items.documents;
}

/** Renders items in the order of their dates, with their times; `date` is in the format of the API, in the time zone of the store. */
export function byDay<Item extends { date: string }>(
  items: readonly Item[],
  render: (item: Item, time: string) => Markup,
): Markup {
  const days: { day: string; items: Item[] }[] = [];
  for (const item of items) {
    const day = dayOfDate(item.date);
    const last = days.at(-1);
    if (last?.day === day) last.items.push(item);
    else days.push({ day, items: [item] });
  }
  return html`${days.map(
    ({ day, items: ofDay }) =>
      html`<h2>${day}</h2>
        <ol class="log">
          ${ofDay.map((item) => {
            const time = clockOf(item.date);
            return html`<li>
              <time datetime="${item.date}">${time}</time>
              <div>${render(item, time)}</div>
            </li>`;
          })}
        </ol>`,
  )}`;
}
