/**
 * Searches a store for copies of erased customers, resources first, then events, in pages. The position is stored after each
 * page, so another process can continue; repeating a page changes nothing.
 */
import { transaction, type Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import { isMapped, mapped } from '#catalog/catalog.ts';
import { isObject, type JsonObject } from '#catalog/resource-document.ts';
import { isNumber, parseExact } from '#core/exact-number.ts';
import type { Value } from '#hypermedia/document.ts';
import type { EventCaches } from './erasure.ts';
import {
  deleteCopySearch,
  findCopySearch,
  insertErasedEvents,
  lockEvents,
  pageOfEvents,
  pageOfResources,
  replaceEvent,
  replaceResource,
  saveSearchPosition,
  type CopySearch,
} from './erasure-sql.ts';

const isCustomerRelation = (name: string): boolean => name === 'customer' || name.endsWith(':customer');

/** Returns texts of which every body with a copy contains one; an id may be published as a number or as a string. */
function needlesOf(id: string): string[] {
  // The id of a mapped customer is in any member.
  const name = isMapped('customer') ? '' : '"id":';
  const asText = name + JSON.stringify(id);
  return /^(?:0|[1-9][0-9]*)$/.test(id) ? [asText, name + id] : [asText];
}

/** Returns the JSON text without the customer, wherever it is embedded under `customer`; undefined if it contains no copy. */
export function withoutCustomer(body: string, id: string): string | undefined {
  let found = false;
  const isCopy = (value: Value | undefined): boolean => {
    const copyId = isObject(value) ? mapped('customer', value).resource['id'] : undefined;
    const isMatch = (typeof copyId === 'string' || isNumber(copyId)) && String(copyId) === id;
    found ||= isMatch;
    return isMatch;
  };
  const embeddedWithout = (all: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(all).flatMap(([name, value]): [string, Value][] => {
        if (!isCustomerRelation(name)) return [[name, strip(value)]];
        if (Array.isArray(value)) return [[name, (value as Value[]).filter((one) => !isCopy(one)).map(strip)]];
        return isCopy(value) ? [] : [[name, strip(value)]];
      }),
    );
  const strip = (value: Value): Value => {
    if (Array.isArray(value)) return (value as Value[]).map(strip);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]): [string, Value] => [
        name,
        name === '_embedded' && isObject(member) ? embeddedWithout(member) : strip(member),
      ]),
    );
  };
  const stripped = strip(parseExact(body) as Value);
  return found ? JSON.stringify(stripped) : undefined;
}

export type CopySearchDeps = { sql: Sql; log: Log; caches: EventCaches };

/** Replaces each row in its own statement, so that a concurrent publish waits for one row at most. */
async function searchResources({ sql }: CopySearchDeps, search: CopySearch, limit: number): Promise<number> {
  const page = await pageOfResources(sql, search, needlesOf(search.id), limit);
  for (const resource of page) {
    const body = resource.body === null ? undefined : withoutCustomer(resource.body, search.id);
    if (body !== undefined) await replaceResource(sql, search, resource, body);
  }
  const last = page.at(-1);
  if (last !== undefined && page.length === limit)
    await saveSearchPosition(sql, { ...search, afterType: last.type, afterId: last.id });
  else await saveSearchPosition(sql, { ...search, beforeEventId: Number.MAX_SAFE_INTEGER });
  return page.length;
}

async function searchEvents(
  { sql, caches }: CopySearchDeps,
  search: CopySearch,
  { before, limit, now }: { before: number; limit: number; now: Date },
): Promise<number> {
  const { shard } = search;
  const page = await pageOfEvents(sql, search, before, needlesOf(search.id), limit);
  const copies = page.flatMap(({ id, body: stored }) => {
    const body = stored === null ? undefined : withoutCustomer(stored, search.id);
    return body === undefined ? [] : [{ id, body }];
  });
  const ids = copies.map(({ id }) => id);
  if (ids.length > 0) {
    // One notification per page: each makes every worker search its memory.
    await transaction(sql, async (tx) => {
      await lockEvents(tx, search, ids);
      for (const { id, body } of copies) await replaceEvent(tx, search, id, body);
      await insertErasedEvents(tx, search, ids, now);
      await caches.announce(tx, { shard, ids });
    });
    caches.forget({ shard, ids });
  }
  const last = page.at(-1);
  if (last !== undefined && page.length === limit) await saveSearchPosition(sql, { ...search, beforeEventId: last.id });
  return page.length;
}

/** Searches at most `limit` rows. Returns a smaller number if no search remains. */
export async function searchCustomerCopies(deps: CopySearchDeps, limit: number, now: Date): Promise<number> {
  let searched = 0;
  while (searched < limit) {
    const search = await findCopySearch(deps.sql);
    if (search === undefined) break;
    const { storeId, beforeEventId: before } = search;
    const remaining = limit - searched;
    if (before === null) {
      searched += await searchResources(deps, search, remaining);
    } else {
      const rows = await searchEvents(deps, search, { before, limit: remaining, now });
      searched += rows;
      if (rows === remaining) continue;
      if (!(await deleteCopySearch(deps.sql, search))) break;
      deps.log.info({ store: storeId, since: search.dateErased }, 'copies of erased customer removed');
    }
  }
  return searched;
}
