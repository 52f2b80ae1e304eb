/**
 * The search of a store's pages: one box for the id or the address of an order, a customer, an event, a delivery or a webhook. One hit
 * leads to its page, several are a list.
 */
import { resourceTypes, titleOf, typeOfCollection } from '#catalog/catalog.ts';
import { addressOf, nameOf } from '#catalog/resource-document.ts';
import { parseId, shardOf, type StoreKey } from '#core/ids.ts';
import { storeOfAddress } from '#core/principal.ts';
import type { Queryable } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { Pages } from '#http/caller.ts';
import type { RawHandler } from '#http/route.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { crumbs, hrefOf } from '#hypermedia/html/links.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { addressOfEvent } from '#events/operations.ts';
import { addressOfStore, addressOfWebhook } from '#webhooks/webhook-document.ts';
import { addressOfDelivery } from '#webhooks/history/history-documents.ts';
import { findDeliveryHits, findEventHits, findTypesOfResource, findWebhookHits } from './lists-sql.ts';

/** Ids of publishers have at most 64 characters, and URLs of webhooks at most 1,000. */
const ID_LENGTH_MAX = 64;
const TEXT_LENGTH_MAX = 1_000;

/** `kind`: the collection that an address names; undefined for any. */
type Sought = { id: string | null; url: string | null; kind: string | undefined };

const NOTHING: Sought = { id: null, url: null, kind: undefined };

/** A text that the database can store. */
const HARMLESS = /^[^\p{Cc}\p{Cs}]+$/u;

const isId = (text: string): boolean => text.length <= ID_LENGTH_MAX && HARMLESS.test(text);

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return '';
  }
}

/** Returns what the path of an address of this server names: its last collection and id. */
function namedBy(path: string, storeId: number): Sought {
  const segments = path.split('/');
  if (segments[0] === 'stores' && segments[1] !== String(storeId)) return NOTHING;
  // The address may be of a list below what it names.
  const [kind, written = ''] = segments.slice(segments.length % 2 === 0 ? -2 : -3);
  const id = decoded(written);
  return isId(id) ? { id, url: null, kind } : NOTHING;
}

/** Returns what the text asks for: an id, the address of something on this server (below one of `bases`), or the url of a webhook. */
function readSearch(text: string, { storeId, bases }: { storeId: number; bases: readonly string[] }): Sought {
  const asked = text.trim().replace(/^#/, '');
  if (asked.length > TEXT_LENGTH_MAX) return NOTHING;
  if (!/^https?:\/\//i.test(asked)) return isId(asked) ? { id: asked, url: null, kind: undefined } : NOTHING;
  const [address = ''] = asked.split(/[?#]/, 1);
  const base = bases.find((one) => address.startsWith(`${one}/`));
  if (base !== undefined) return namedBy(address.slice(base.length + 1), storeId);
  return HARMLESS.test(address) ? { id: null, url: address, kind: undefined } : NOTHING;
}

type Hit = { kind: string; title: string; address: string };

/** `sql`: of the database of the store. */
type Searched = { sql: Queryable; store: StoreKey; baseUrl: string };

async function resourceHits({ sql, store, baseUrl }: Searched, { id, kind }: Sought): Promise<Hit[]> {
  const only = kind === undefined ? undefined : typeOfCollection(kind);
  if (id === null || (kind !== undefined && only === undefined)) return [];
  const types = await findTypesOfResource(sql, store, { types: only === undefined ? resourceTypes() : [only], id });
  const { storeId } = store;
  return types.map((type) => {
    return { kind: titleOf(type), title: nameOf({ type, id }), address: addressOf({ baseUrl, storeId, type, id }) };
  });
}

/** Returns what Halcyon has numbered: an event, a delivery and webhooks. The id of each has the shard of the store. */
async function numberedHits({ sql, store, baseUrl }: Searched, { id: text, url, kind }: Sought): Promise<Hit[]> {
  const number = text === null ? undefined : parseId(text);
  const id = number !== undefined && shardOf(number) === store.shard ? number : null;
  const isSought = (name: string): boolean => kind === undefined || kind === name;
  const [events, deliveries, webhooks] = await Promise.all([
    id !== null && isSought('events') ? findEventHits(sql, store, id) : [],
    id !== null && isSought('statuses') ? findDeliveryHits(sql, store, id) : [],
    (id !== null || url !== null) && isSought('webhooks') ? findWebhookHits(sql, store, { id, url }) : [],
  ]);
  return [
    ...events.map((event) => ({
      kind: 'Event',
      title: `${nameOf({ type: event.type, id: event.resourceId })} ${event.action}`,
      address: addressOfEvent(event, baseUrl, store.storeId),
    })),
    ...deliveries.map((delivery) => ({
      kind: 'Delivery',
      title: `Delivery ${delivery.id}`,
      address: addressOfDelivery(delivery.id, { id: delivery.webhookId }, baseUrl),
    })),
    ...webhooks.map((webhook) => ({
      kind: 'Webhook',
      title: webhook.name,
      address: addressOfWebhook(webhook.id, baseUrl),
    })),
  ];
}

const TITLE = 'Find';

/** Returns what the tabs of the store and the breadcrumbs are rendered from. */
function documentOf(storeId: number, baseUrl: string): Document {
  const store = addressOfStore(storeId, baseUrl);
  return {
    name: 'store',
    title: TITLE,
    links: [
      { rel: 'self', href: `${store}/search`, title: TITLE },
      { rel: 'store', href: store, title: 'The store', crumb: 'Store' },
    ],
    embedded: [],
    properties: [],
  };
}

const list = (hits: readonly Hit[], naming: Naming): Markup =>
  html`<ul class="rows">
    ${hits.map(
      ({ kind, title, address }) =>
        html`<li>
          <p class="entry"><a href="${hrefOf(address, naming)}">${title}</a> <span class="soft">${kind}</span></p>
        </li>`,
    )}
  </ul>`;

const empty = (asked: string): Markup =>
  html`<p>
      ${asked === '' ? 'Enter an ID or a URL.' : html`Nothing in this store has the ID or URL <code>${asked}</code>.`}
    </p>
    <p class="soft">
      Look for the ID of an order, a customer or another resource, of an event or a delivery, or for the URL of a
      webhook. Events and deliveries are kept for a limited time.
    </p>`;

/** Returns the handler of the search, for people who are signed in and have access to the store. */
export function createSearchPage(
  { visitorOf, signInAt }: Pick<Pages, 'visitorOf' | 'signInAt'>,
  { sqlOf, naming, authUrl }: { sqlOf: (shard: number) => Queryable; naming: Naming; authUrl: string },
): RawHandler {
  const { baseUrl } = naming;
  return async (request) => {
    const { query, path, rawQuery } = request;
    const visitor = await visitorOf(request);
    if (visitor === null) return redirectAnswer(signInAt(rawQuery === '' ? path : `${path}?${rawQuery}`));
    const enrolAt = visitor.enrolAt(parseId(request.params['store_id'] ?? ''));
    if (enrolAt !== undefined) return redirectAnswer(enrolAt);
    const store = storeOfAddress({ params: request.params, principal: visitor.principal });
    const asked = (query.get('q') ?? '').trim();
    const sought = readSearch(asked, { storeId: store.storeId, bases: [baseUrl, authUrl] });
    const searched = { sql: sqlOf(store.shard), store, baseUrl };
    const hits = (await Promise.all([resourceHits(searched, sought), numberedHits(searched, sought)])).flat();
    const [only, ...others] = hits;
    if (only !== undefined && others.length === 0) return redirectAnswer(new URL(only.address).pathname);
    const document = documentOf(store.storeId, baseUrl);
    const main = html`<div class="card">
      ${crumbs(document, naming)}
      <h1>${TITLE}</h1>
      ${hits.length === 0 ? empty(asked.slice(0, TEXT_LENGTH_MAX)) : list(hits, naming)}
    </div>`;
    const { nav, store: name } = visitor.nav(document);
    const { frameOrigins = [] } = visitor;
    return htmlAnswer(200, shell({ title: [TITLE, name].join(' · '), nav, main, wide: true }), { frameOrigins });
  };
}
