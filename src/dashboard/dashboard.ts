/** The pages that are designed for people, by the names of their documents. All other documents have a generic page. */
import type { Queryable } from '#db/pool.ts';
import { collectionOf, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import { embeddedOf, resourceView } from '#catalog/resource-document.ts';
import type { DesignedPage, DesignedPages, ShownDocument } from '#http/services.ts';
import { dayOf, shardOf, type StoreKey } from '#core/ids.ts';
import { listView } from '#http/list-operation.ts';
import { renderHtml, renderDesigned } from '#hypermedia/html/document-page.ts';
import { hrefOf, linkTo, addressWith, ownPath } from '#hypermedia/html/links.ts';
import { parseAddress } from '#hypermedia/html/search-form.ts';
import { storeGrantView } from '#identity/oauth/connected/store-grants.ts';
import type { Document, Embedded, Naming } from '#hypermedia/document.ts';
import { overviewView } from '#webhooks/health/health-document.ts';
import { webhookView } from '#webhooks/webhook-document.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { accessPage, appPage, appsPage, invitationPage, membersOf, membersPage } from './access-pages.ts';
import { changelogPage, entriesOf } from './changelog-page.ts';
import { deliveriesOf, deliveriesPage, isWholeList } from './deliveries-page.ts';
import { itemsOf } from '#hypermedia/html/content.ts';
import { countTabs, listWebhookNames, readActivity } from './lists-sql.ts';
import { findNames } from './names-sql.ts';
import { deliveryPage } from './delivery-page.ts';
import { stateCell } from './health-words.ts';
import { overviewPage } from './overview-page.ts';
import { recoveryPage } from './recovery-page.ts';
import { webhookPage } from './webhook-page.ts';

/** Returns the store of an overview, of a webhook or of listed items; undefined for another document. */
function storeOf(document: Document): StoreKey | undefined {
  const shown = listView.of(document) ?? overviewView.of(document) ?? webhookView.of(document);
  return shown && { shard: shardOf(shown.storeId), storeId: shown.storeId };
}

/** A longer list of what a resource embeds has a page of its own alone. */
const EMBEDDED_SHOWN_MAX = 25;

/**
 * Returns the generic page of a resource with what it embeds, and with links to its events and deliveries, which its representation does
 * not have, because webhooks are sent it; undefined for another document with its name, such as what another resource embeds.
 */
function resourcePage({ document, naming, view }: ShownDocument, type: ResourceType): string | undefined {
  const self = hrefOf(linkTo(document, 'self')?.href ?? '', naming) ?? '';
  const [path = ''] = self.split('?', 1);
  const [, store, collection, id] = /^(.*\/stores\/\d+)\/(\w+)\/([^/]+)$/.exec(path) ?? [];
  if (store === undefined || id === undefined || collection !== collectionOf(type)) return undefined;
  const of = [
    ['resource_type', type],
    ['resource_id', decodeURIComponent(id)],
  ] as const;
  const links = [
    { rel: 'events', href: addressWith(`${store}/events`, of), title: 'Its events' },
    { rel: 'statuses', href: addressWith(`${store}/statuses`, of), title: 'Its deliveries' },
  ];
  const resource = resourceView.of(document);
  const isZoomed = document.embedded.length > 0 || resource === undefined;
  const all = isZoomed
    ? document.embedded
    : embeddedOf(type, resource).filter(({ documents: { length } }) => length > 0 && length <= EMBEDDED_SHOWN_MAX);
  const linked = (part: Embedded): Embedded => ({ ...part, href: linkTo(document, part.rel)?.href });
  const embedded = all.map(linked);
  const shown = new Set(embedded.map(({ rel }) => rel));
  const others = document.links.filter(({ rel }) => !shown.has(rel));
  return renderHtml({ ...document, embedded, links: [...links, ...others] }, naming, view);
}

/** Returns the generic page of the webhooks of a store, with the states of their overview, which knows what is retried and did not arrive. */
function webhooksPage({ document, naming, view }: ShownDocument): string | undefined {
  const overview = view.summary && overviewView.of(view.summary);
  if (overview === undefined) return undefined;
  const healths = new Map(overview.healths.map((health) => [health.address, health]));
  const withState = (webhook: Document): Document => {
    const health = healths.get(linkTo(webhook, 'self')?.href ?? '');
    if (health === undefined) return webhook;
    const cell = stateCell(health, naming);
    return { ...webhook, properties: webhook.properties.map((one) => (one.name === 'state' ? { ...one, cell } : one)) };
  };
  const embedded = document.embedded.map((part) => ({ ...part, documents: part.documents.map(withState) }));
  return renderHtml({ ...document, embedded }, naming, view);
}

/** Returns the page of the apps of a store; undefined for those of a user, and for parts of them. */
function storeAppsPage(shown: ShownDocument, root: string): string | undefined {
  const apps = storeOf(shown.document) && itemsOf(shown.document, storeGrantView);
  return apps && appsPage(shown, { apps, root });
}

/** The pages that show a rejected form. The form of another document is shown on its generic page. */
const WITH_FORMS: ReadonlySet<string> = new Set(['webhook']);

/** Returns the connection to the database of a shard. */
type SqlOf = (shard: number) => Queryable;

function createLiveLists(sqlOf: SqlOf, root: string) {
  /** Returns the address of the stream that says when something has happened in the store. */
  const liveAddressOf = async (store: StoreKey, now: Date): Promise<string> => {
    const seen = await readActivity(sqlOf(store.shard), store, dayOf(now));
    return `${root}/stores/${store.storeId}/live?${new URLSearchParams({ seen }).toString()}`;
  };
  /** The generic page of a list that grows at its beginning; later pages would move under the reader's eyes. */
  const liveList: DesignedPage = async ({ document, naming, view, now }) => {
    const { parameters } = parseAddress(document, naming);
    const store = storeOf(document);
    if (store === undefined || parameters.some(([name]) => name === 'offset' || name === 'order')) return undefined;
    return renderHtml(document, naming, { ...view, liveAddress: await liveAddressOf(store, now) });
  };
  /** Returns the document to show as a page that changes with what happens in its store. */
  const live = async (shown: ShownDocument): Promise<ShownDocument> => {
    const store = storeOf(shown.document);
    if (store === undefined) return shown;
    return { ...shown, view: { ...shown.view, liveAddress: await liveAddressOf(store, shown.now) } };
  };
  return { liveAddressOf, liveList, live };
}

/** `accounts`: the home database. `root`: the path prefix of pages. `retentionDays`: how long events are kept. */
export function createDashboard({
  sqlOf,
  accounts,
  root,
  retentionDays,
}: {
  sqlOf: SqlOf;
  accounts: Queryable;
  root: string;
  retentionDays: number;
}): DesignedPages {
  const { liveAddressOf, liveList, live } = createLiveLists(sqlOf, root);
  const pages: [name: string, page: DesignedPage][] = [
    ['events', liveList],
    ['logs', liveList],
    [
      'changelogs',
      async (shown) => {
        const entries = entriesOf(shown.document, shown.naming);
        const store = storeOf(shown.document);
        if (entries === undefined || store === undefined) return undefined;
        const names = await findNames({ sql: sqlOf(store.shard), accounts }, store, {
          webhookIds: entries.flatMap((entry) => (entry.resource === 'webhook' ? [Number(entry.resource_id)] : [])),
          // The platform's client is not an app of the store.
          clientIds: entries.flatMap(({ actor, client }) => (actor === 'app' ? (client ?? []) : [])),
        });
        return changelogPage(shown, { entries, names, storeId: store.storeId });
      },
    ],
    ...resourceTypes().map((type): [string, DesignedPage] => [type, async (shown) => resourcePage(shown, type)]),
    ['overview', async (shown) => overviewPage(await live(shown))],
    [
      'statuses',
      async (shown) => {
        const listed = deliveriesOf(shown.document, shown.naming);
        const store = storeOf(shown.document);
        if (listed === undefined || store === undefined) return undefined;
        const sql = sqlOf(store.shard);
        const webhookId = listed.webhookId ?? undefined;
        const [counts, webhooks, liveAddress] = await Promise.all([
          isWholeList(shown) ? countTabs(sql, { ...store, webhookId }) : undefined,
          webhookId === undefined ? listWebhookNames(sql, store) : undefined,
          liveAddressOf(store, shown.now),
        ]);
        return deliveriesPage(shown, { ...listed, counts, webhooks, liveAddress, retentionDays });
      },
    ],
    ['grants', async (shown) => storeAppsPage(shown, root) ?? accessPage(shown)],
    ['grant', async (shown) => appPage(shown, storeGrantView.of(shown.document)) ?? accessPage(shown)],
    ['installs', async (shown) => accessPage(shown)],
    [
      'members',
      async (shown) => {
        const members = membersOf(shown.document);
        return members && membersPage(shown, members);
      },
    ],
    ['invitation', async (shown) => invitationPage(shown)],
    ['recovery', async (shown) => recoveryPage(shown)],
    ['status', async (shown) => deliveryPage(shown)],
    ['webhook', async (shown) => webhookPage(await live(shown))],
    ['webhooks', async (shown) => webhooksPage(shown)],
  ];
  return new Map(
    pages.map(([name, page]) => [
      name,
      async (shown) => (shown.view.refused === undefined || WITH_FORMS.has(name) ? page(shown) : undefined),
    ]),
  );
}

type Reader = { who: string; text: string; links: readonly Markup[] };

const reader = ({ who, text, links }: Reader): Markup =>
  html`<section class="card">
    <h2>${who}</h2>
    <p>${text}</p>
    <p class="buttons">${links}</p>
  </section>`;

const button = (href: string, text: string, kind: string): Markup =>
  html`<a class="button ${kind}" href="${href}">${text}</a>`;

/** Creates the page. `signInPath` is the path of the sign-in page, `versionHeader` the header of the API's version. */
export function createFrontPage(addresses: { signInPath: string; versionHeader: string }) {
  const { signInPath, versionHeader } = addresses;
  return ({ document, naming, view }: { document: Document; naming: Naming; view: View }): string => {
    const pathOf = (path: string): string => ownPath(path, naming);
    const apiAddress = new URL(naming.baseUrl).href;
    const readers: readonly Reader[] = [
      {
        who: 'Store owners',
        text: 'Decide which apps may read your store, and see every webhook delivery: what was sent, what the endpoint answered, and how to repair it.',
        links: [button(signInPath, 'Sign in', 'sign-in')],
      },
      {
        who: 'App developers',
        text: 'Let store owners connect your app by OAuth 2.0, read their stores through the API, and receive their events as signed webhooks.',
        links: [button(pathOf('/docs'), 'API documentation', 'quiet read')],
      },
      {
        who: 'Operators',
        text: 'Manage stores, people and apps of this server by the command line or the API. Its state is public, for your load balancer.',
        links: [button(pathOf('/health/ready'), 'Health of this server', 'quiet health')],
      },
    ];
    const title = 'Connect stores with apps';
    const main = html`<div class="intro">
        <h1>${title}</h1>
        <p>
          A store owner gives an app access. The app then reads the data of the store through the API and receives its
          events as signed webhooks.
        </p>
      </div>
      <div class="readers">${readers.map(reader)}</div>
      <section class="card">
        <h2>The API</h2>
        <p>Every resource is a page for people and data for programs. Begin here, and follow the links:</p>
        <pre class="copyable">${'\n'}curl -H '${versionHeader}: 1' ${apiAddress}</pre>
      </section>`;
    return renderDesigned({ document: { ...document, title }, naming, view, main });
  };
}
