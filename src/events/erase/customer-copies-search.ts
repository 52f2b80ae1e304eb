/**
 * Looks through a store for copies of its erased customers: resources first, then events, in pages whose end is kept, so
 * that whoever takes over goes on from there. A page that is gone through twice changes nothing twice.
 */
import { transaction, type Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import { needlesOf, withoutCustomer } from './copies.ts';
import type { Holders } from './chain.ts';
import { lockEvents } from './chain-sql.ts';
import {
  endHunt,
  moveHunt,
  nextHunt,
  noteEvents,
  pageOfEvents,
  pageOfResources,
  replaceEvent,
  replaceResource,
  type Hunt,
} from './erase-sql.ts';

export type HuntDeps = { sql: Sql; log: Log; holders: Holders };

/** A row at a time, each by itself: whoever publishes the same resources waits for none but one. */
const throughResources = async ({ sql }: HuntDeps, hunt: Hunt, limit: number): Promise<number> => {
  const page = await pageOfResources(sql, hunt, needlesOf(hunt.id), limit);
  for (const resource of page) {
    const body = resource.body === null ? undefined : withoutCustomer(resource.body, hunt.id);
    if (body !== undefined) await replaceResource(sql, hunt, resource, body);
  }
  const last = page.at(-1);
  if (last !== undefined && page.length === limit)
    await moveHunt(sql, { ...hunt, afterType: last.type, afterId: last.id });
  else await moveHunt(sql, { ...hunt, beforeEventId: Number.MAX_SAFE_INTEGER });
  return page.length;
};

const throughEvents = async (
  { sql, holders }: HuntDeps,
  hunt: Hunt,
  { before, limit, now }: { before: number; limit: number; now: Date },
): Promise<number> => {
  const { shard } = hunt;
  const page = await pageOfEvents(sql, hunt, before, needlesOf(hunt.id), limit);
  const copies = page.flatMap(({ id, body: stored }) => {
    const body = stored === null ? undefined : withoutCustomer(stored, hunt.id);
    return body === undefined ? [] : [{ id, body }];
  });
  const ids = copies.map(({ id }) => id);
  if (ids.length > 0) {
    // Once a page: each word makes every worker look through what it has in memory.
    await transaction(sql, async (tx) => {
      await lockEvents(tx, shard, ids);
      for (const { id, body } of copies) await replaceEvent(tx, shard, id, body);
      await noteEvents(tx, hunt, ids, now);
      await holders.announce(tx, { shard, ids });
    });
    holders.forget({ shard, ids });
  }
  const last = page.at(-1);
  if (last !== undefined && page.length === limit) await moveHunt(sql, { ...hunt, beforeEventId: last.id });
  return page.length;
};

/** Goes through at most `limit` rows; fewer where no customer is left whose copies are looked for. */
export const huntCopies = async (deps: HuntDeps, limit: number, now: Date): Promise<number> => {
  let looked = 0;
  while (looked < limit) {
    const hunt = await nextHunt(deps.sql);
    if (hunt === undefined) break;
    const { storeId, beforeEventId: before } = hunt;
    const left = limit - looked;
    if (before === null) {
      looked += await throughResources(deps, hunt, left);
    } else {
      const rows = await throughEvents(deps, hunt, { before, limit: left, now });
      looked += rows;
      if (rows === left) continue;
      if (!(await endHunt(deps.sql, hunt))) break;
      deps.log.info({ store: storeId, since: hunt.dateErased }, 'the copies of an erased customer are gone');
    }
  }
  return looked;
};
