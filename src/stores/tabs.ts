/** The places of a store, on each page in it: which store that is says the document by its links. */
import type { Document } from '#hypermedia/document.ts';
import { html, type Markup } from '#hypermedia/markup.ts';

/** In the order in which a person wants them; all below the address of the store. */
const PLACES = [
  ['Overview', '/overview'],
  ['Webhooks', '/webhooks'],
  ['Events', '/events'],
  ['Members', '/members'],
  ['Store', ''],
] as const;

const pathOf = (href: string): string => href.split(/[?#]/, 1)[0] ?? '';

/** Its own address, or that of a store which it is a part of. */
const storeOf = ({ links }: Document, baseUrl: string): { address: string; id: number } | undefined => {
  const ways = links.filter(({ rel, crumb }) => rel === 'self' || (rel === 'store' && crumb !== undefined));
  for (const { href } of ways) {
    const [, id] = href.startsWith(`${baseUrl}/stores/`)
      ? (/^\/stores\/(\d+)(?=[/?]|$)/.exec(href.slice(baseUrl.length)) ?? [])
      : [];
    if (id !== undefined) return { address: `${baseUrl}/stores/${id}`, id: Number(id) };
  }
  return undefined;
};

/** `nameOf` knows the stores of the reader; undefined where the document is of none of them. */
export const storeTabs = (
  document: Document,
  { baseUrl, nameOf }: { baseUrl: string; nameOf: (storeId: number) => string | undefined },
): Markup | undefined => {
  const store = storeOf(document, baseUrl);
  const name = store && nameOf(store.id);
  if (store === undefined || name === undefined) return undefined;
  const self = pathOf(document.links.find(({ rel }) => rel === 'self')?.href ?? '');
  const above = new Set(document.links.flatMap(({ href, crumb }) => (crumb === undefined ? [] : [pathOf(href)])));
  const addressOf = (below: string): string => store.address + below;
  const isIn = (address: string): boolean => above.has(address) || self.startsWith(`${address}/`);
  // What has no place of its own is found on the page of the store.
  const place = PLACES.find(([, below]) => addressOf(below) === self || isIn(addressOf(below)))?.[1];
  return html`<nav class="tabs" aria-label="The store ${name}">
    <strong>${name}</strong>
    ${PLACES.map(([words, below]) => {
      const href = new URL(addressOf(below)).pathname;
      const current =
        below !== place ? false : addressOf(below) === self ? html`aria-current="page"` : html`aria-current="true"`;
      return html`<a href="${href}" ${current}>${words}</a>`;
    })}
  </nav>`;
};

/** With one store that store, else the list of them. */
export const landingOf = ({ stores }: { stores: readonly number[] }, baseUrl: string): string => {
  const [only, ...more] = stores;
  const address = only !== undefined && more.length === 0 ? `${baseUrl}/stores/${only}/overview` : `${baseUrl}/stores`;
  return new URL(address).pathname;
};
