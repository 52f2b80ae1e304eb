/** The pages that are designed for people, by the names of their documents. All other documents have a generic page. */
import type { Queryable } from '#db/pool.ts';
import type { DesignedPage, DesignedPages } from '#http/services.ts';
import { dayOf, parseId, shardOf } from '#core/ids.ts';
import { linkTo } from '#hypermedia/html/links.ts';
import { renderHtml } from '#hypermedia/html/page.ts';
import { parseAddress } from '#hypermedia/html/search.ts';
import type { Document } from '#hypermedia/document.ts';
import { changelogPage, entriesOf } from './changelog-page.ts';
import { deliveriesOf, deliveriesPage, isWholeList } from './deliveries-page.ts';
import { countTabs, listWebhookNames, readActivity } from './lists-sql.ts';
import { deliveryPage, detailsOf } from './delivery-page.ts';
import { invitationPage } from './invitations-part.ts';
import { membersOf, membersPage } from './members-page.ts';
import { findNames } from './names-sql.ts';
import { overviewPage } from './overview-page.ts';
import { isWholeWebhook, webhookPage } from './webhook-page.ts';

/** Returns the store of the document, by the address of its link `store`. */
function storeOf(document: Document): { shard: number; storeId: number } {
  const storeId = parseId(linkTo(document, 'store')?.href.split('/').at(-1) ?? '');
  if (storeId === undefined) throw new TypeError(`The document ${document.name} has no link to its store`);
  return { shard: shardOf(storeId), storeId };
}

/** The pages that show a rejected form. The form of another document is shown on its generic page. */
const WITH_FORMS: ReadonlySet<string> = new Set(['webhook']);

/** Returns the connection to the database of a shard. */
type SqlOf = (shard: number) => Queryable;

function createLiveLists(sqlOf: SqlOf, root: string) {
  /** Returns the address of the stream that says when something has happened in the store. */
  const liveAddressOf = async (store: { shard: number; storeId: number }, now: Date): Promise<string> => {
    const seen = await readActivity(sqlOf(store.shard), store, dayOf(now));
    return `${root}/stores/${store.storeId}/live?${new URLSearchParams({ seen }).toString()}`;
  };
  /** The generic page of a list that grows at its beginning; later pages would move under the reader's eyes. */
  const liveList: DesignedPage = async ({ document, naming, view, now }) => {
    const { parameters } = parseAddress(document, naming);
    if (parameters.some(([name]) => name === 'offset' || name === 'order')) return undefined;
    return renderHtml(document, naming, { ...view, liveAddress: await liveAddressOf(storeOf(document), now) });
  };
  return { liveAddressOf, liveList };
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
  const { liveAddressOf, liveList } = createLiveLists(sqlOf, root);
  const pages: [name: string, page: DesignedPage][] = [
    ['events', liveList],
    ['logs', liveList],
    [
      'changelogs',
      async (shown) => {
        const entries = entriesOf(shown.document, shown.naming);
        if (entries === undefined) return undefined;
        const store = storeOf(shown.document);
        const names = await findNames({ sql: sqlOf(store.shard), accounts }, store, {
          webhookIds: entries.flatMap(({ resource, resourceId }) => (resource === 'webhook' ? [resourceId] : [])),
          // The platform's client is not an app of the store.
          clientIds: entries.flatMap(({ actor, client }) => (actor === 'app' ? (client ?? []) : [])),
        });
        return changelogPage(shown, entries, names);
      },
    ],
    ['overview', async (shown) => overviewPage(shown)],
    [
      'statuses',
      async (shown) => {
        const listed = deliveriesOf(shown.document, shown.naming);
        if (listed === undefined) return undefined;
        const store = storeOf(shown.document);
        const sql = sqlOf(store.shard);
        const { webhookId } = listed;
        const [counts, webhooks, liveAddress] = await Promise.all([
          isWholeList(shown) ? countTabs(sql, { ...store, webhookId }) : undefined,
          webhookId === undefined ? listWebhookNames(sql, store) : undefined,
          liveAddressOf(store, shown.now),
        ]);
        return deliveriesPage(shown, { ...listed, counts, webhooks, liveAddress, retentionDays });
      },
    ],
    [
      'members',
      async (shown) => {
        const members = membersOf(shown.document, shown.naming);
        return members && membersPage(shown, members);
      },
    ],
    ['invitation', async (shown) => invitationPage(shown)],
    [
      'status',
      async (shown) => {
        const details = detailsOf(shown.document);
        return details && deliveryPage(shown, details);
      },
    ],
    ['webhook', async (shown) => (isWholeWebhook(shown.document) ? webhookPage(shown) : undefined)],
  ];
  return new Map(
    pages.map(([name, page]) => [
      name,
      async (shown) => (shown.view.refused === undefined || WITH_FORMS.has(name) ? page(shown) : undefined),
    ]),
  );
}
