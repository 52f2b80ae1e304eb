/**
 * The API home, from which clients follow links, the stores of a person, and the tabs of a store on each of its pages; a document's links
 * identify the store.
 */
import { open, type Operation } from '#http/operation.ts';
import { homeOf } from '#http/root.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { type Principal, type Suspensions, suspensionsOf } from '#core/principal.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { listMemberships } from './stores-sql.ts';
import type { Queryable } from '#db/pool.ts';

/** Returns the links of a caller: to its user, and to its only store or its list of stores. */
function ownLinks({ scope, stores, userId }: Principal, baseUrl: string): Link[] {
  const [only] = stores;
  const user: Link[] =
    userId === null ? [] : [{ rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'Your account' }];
  if ((scope === 'store_full_access' || scope === 'store_limited') && typeof only === 'number')
    return [...user, { rel: 'store', href: `${baseUrl}/stores/${only}`, title: 'Your store' }];
  const isPlatform = scope === 'platform';
  const storesLink = { rel: 'stores', href: `${baseUrl}/stores`, title: isPlatform ? 'All stores' : 'Your stores' };
  if (!isPlatform) return [...user, storesLink];
  return [
    storesLink,
    { rel: 'users', href: `${baseUrl}/users`, title: 'All users' },
    { rel: 'clients', href: `${baseUrl}/clients`, title: 'All OAuth clients' },
  ];
}

/** Returns the Document of the API home; without a caller it only links to the ways to get a token. */
export function homeDocument(
  principal: Principal | null,
  { baseUrl, authUrl }: { baseUrl: string; authUrl: string },
): Document {
  const links: Link[] = [
    { rel: 'self', href: homeOf(baseUrl), title: 'The API home' },
    {
      rel: 'token',
      href: `${baseUrl}/token`,
      title: 'Exchange an authorization code or a refresh token for an access token',
      type: 'application/json',
    },
    {
      rel: 'authorize',
      href: `${authUrl}/authorize`,
      title: 'Ask a user to authorize your application',
      isForPrograms: true,
    },
    { rel: 'register', href: `${authUrl}/register`, title: 'Register an OAuth client', type: 'application/json' },
    { rel: 'docs', href: `${baseUrl}/docs`, title: 'API documentation', type: 'text/html' },
    ...(principal === null ? [] : ownLinks(principal, baseUrl)),
  ];
  return { name: 'home', title: 'Home', links, embedded: [], properties: [] };
}

/** Creates the operation. `frontPage` renders the page of a caller who is not signed in. */
export function createHome(
  addresses: { baseUrl: string; authUrl: string },
  frontPage: (shown: { document: Document; view: View }) => string,
): Operation {
  return open({
    summary: 'The entry point: how to get a token and, with a token, the resources that it has access to',
    handle: async ({ principal }) => {
      const document = homeDocument(principal, addresses);
      return { status: 200, document, ...(principal === null && { page: (view) => frontPage({ document, view }) }) };
    },
  });
}

/** A store in the navigation of pages. */
export type NamedStore = { name: string; isSandbox: boolean };
/** Returns the stores of a user, those that the user owns, require a second factor or are suspended, and their names. */
export async function membershipsOf(sql: Queryable, userId: number) {
  const rows = await listMemberships(sql, userId);
  const owned = rows.filter(({ role }) => role === 'owner').map(({ storeId }) => storeId);
  const names: ReadonlyMap<number, NamedStore> = new Map(
    rows.map(({ storeId, name, isSandbox }) => [storeId, { name, isSandbox }]),
  );
  const guarded = rows.filter(({ requiresFactor }) => requiresFactor).map(({ storeId }) => storeId);
  return { stores: [...names.keys()], owned, guarded, suspended: suspensionsOf(rows), names };
}

/** Returns the memberships of a user for the export of the account. */
export function exportedMemberships({ stores, owned, names }: Awaited<ReturnType<typeof membershipsOf>>) {
  return stores.map((id) => ({
    store_id: id,
    store: names.get(id)?.name,
    is_sandbox: names.get(id)?.isSandbox,
    role: owned.includes(id) ? 'owner' : 'member',
  }));
}

/** Labels and paths below the address of the store, in display order. */
const TABS = [
  ['Overview', '/overview'],
  ['Webhooks', '/webhooks'],
  ['Deliveries', '/statuses'],
  ['Events', '/events'],
  ['Apps', '/grants'],
  ['Members', '/members'],
  ['Changelog', '/changelogs'],
  ['Store', ''],
] as const;

const pathOf = (href: string): string => href.split(/[?#]/, 1)[0] ?? '';

/** Returns the store that the document represents or belongs to. */
function storeOf({ links }: Document, baseUrl: string): { address: string; id: number } | undefined {
  const candidates = links.filter(({ rel, crumb }) => rel === 'self' || (rel === 'store' && crumb !== undefined));
  for (const { href } of candidates) {
    const [, id] = href.startsWith(`${baseUrl}/stores/`)
      ? (/^\/stores\/(\d+)(?=[/?]|$)/.exec(href.slice(baseUrl.length)) ?? [])
      : [];
    if (id !== undefined) return { address: `${baseUrl}/stores/${id}`, id: Number(id) };
  }
  return undefined;
}

/** Returns the tabs and the name of the store; undefined if the document belongs to none of the reader's stores, whose names `nameOf` returns. */
export function storeTabs(
  document: Document,
  { baseUrl, nameOf }: { baseUrl: string; nameOf: (storeId: number) => NamedStore | undefined },
): { tabs: Markup; store: string } | undefined {
  const store = storeOf(document, baseUrl);
  const named = store && nameOf(store.id);
  if (store === undefined || named === undefined) return undefined;
  const { name, isSandbox } = named;
  const self = pathOf(document.links.find(({ rel }) => rel === 'self')?.href ?? '');
  const ancestors = new Set(document.links.flatMap(({ href, crumb }) => (crumb === undefined ? [] : [pathOf(href)])));
  const addressOf = (path: string): string => store.address + path;
  const isBelow = (address: string): boolean => ancestors.has(address) || self.startsWith(`${address}/`);
  // Documents without a tab of their own are under the tab of the store.
  const currentTab = TABS.find(([, path]) => addressOf(path) === self || isBelow(addressOf(path)))?.[1];
  const tabs = html`<nav class="tabs" aria-label="The store ${name}">
    <strong>${name}</strong>${isSandbox && html` <span class="badge plain">Sandbox</span>`}
    ${TABS.map(([label, path]) => {
      const href = new URL(addressOf(path)).pathname;
      const current =
        path !== currentTab ? false : addressOf(path) === self ? html`aria-current="page"` : html`aria-current="true"`;
      return html`<a href="${href}" ${current}>${label}</a>`;
    })}
    <form method="get" action="${new URL(addressOf('/search')).pathname}" role="search" aria-label="Find in the store">
      <input type="text" name="q" aria-label="ID or URL" placeholder="ID or URL" spellcheck="false" />
      <button type="submit" class="quiet">Find</button>
    </form>
  </nav>`;
  return { tabs, store: name };
}

/** Returns the path of the first page after sign-in: the overview of a user's only store that is not suspended, else the list of stores. */
export function startPageOf(
  { stores, suspended }: { stores: readonly number[]; suspended: Suspensions },
  baseUrl: string,
): string {
  const [onlyStore, ...others] = stores.filter((id) => !suspended.has(id));
  const address =
    onlyStore !== undefined && others.length === 0 ? `${baseUrl}/stores/${onlyStore}/overview` : `${baseUrl}/stores`;
  return new URL(address).pathname;
}
