/** The pages that are designed for people, by the names of their documents. All other documents have a generic page. */
import type { Sql } from '#db/pool.ts';
import type { DesignedPages } from '#http/services.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { linkTo } from '#hypermedia/html/links.ts';
import type { Document } from '#hypermedia/document.ts';
import { changelogPage, entriesOf } from './changelog-page.ts';
import { deliveriesOf, deliveriesPage } from './deliveries-page.ts';
import { findNames } from './names-sql.ts';

/** Returns the store of the document, by the address of its link `store`. */
function storeOf(document: Document): { shard: number; storeId: number } {
  const storeId = parseId(linkTo(document, 'store')?.href.split('/').at(-1) ?? '');
  if (storeId === undefined) throw new TypeError(`The document ${document.name} has no link to its store`);
  return { shard: shardOf(storeId), storeId };
}

export function createDashboard({ sql }: { sql: Sql }): DesignedPages {
  return new Map([
    [
      'changelogs',
      async (shown) => {
        const entries = entriesOf(shown.document, shown.naming);
        if (entries === undefined) return undefined;
        const names = await findNames(sql, storeOf(shown.document), {
          webhookIds: entries.flatMap(({ resource, resourceId }) => (resource === 'webhook' ? [resourceId] : [])),
          // The platform's client is not an app of the store.
          clientIds: entries.flatMap(({ actor, client }) => (actor === 'app' ? (client ?? []) : [])),
        });
        return changelogPage(shown, entries, names);
      },
    ],
    [
      'statuses',
      async (shown) => {
        const deliveries = deliveriesOf(shown.document, shown.naming);
        return deliveries && deliveriesPage(shown, deliveries);
      },
    ],
  ]);
}
