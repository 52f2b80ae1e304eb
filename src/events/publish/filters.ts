/**
 * Filters of webhooks in a publish. Each process keeps the filters that it knows, compiled, and passes their results to the statement
 * that makes the deliveries. The statement fails with SQLSTATE HL002 if a webhook has another filter, which is then read: a change takes
 * effect at once in all processes, and stores without filters cost nothing.
 */
import { setImmediate as pause } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import { compileFilter, payloadOf, type PayloadFilter } from '#catalog/payload-filter.ts';
import type { Queryable } from '#db/pool.ts';
import { temporary } from '#core/problem.ts';
import type { PublishColumns } from './rows.ts';
import { filtersOfStores, type FilterColumns } from './publish-sql.ts';

/** Filters that a process keeps, each of up to 1,000 characters. */
const FILTERS_MAX = 20_000;

/** A filter of one or several webhooks of a store. `type`: the resource of their events. */
type KnownFilter = { id: string; type: string; passes: PayloadFilter };

/** Returns the filters of a store. */
type FiltersOf = (storeId: number) => readonly KnownFilter[] | undefined;

/** Compiled filters by their text: internal events read those of their store each time. */
const compiled = new LRUCache<string, PayloadFilter>({ ...entriesUpTo(FILTERS_MAX), memoMethod: compileFilter });

/** Reads the filters of all active webhooks of the stores. */
export async function readFilters(
  sql: Queryable,
  storeIds: readonly number[],
): Promise<ReadonlyMap<number, readonly KnownFilter[]>> {
  const rows = await filtersOfStores(sql, storeIds);
  const known = rows.map(({ storeId, id, type, filter }) => ({ storeId, id, type, passes: compiled.memo(filter) }));
  return Map.groupBy(known, ({ storeId }) => storeId);
}

/** The filters that a process knows. */
export type Filters = {
  of: FiltersOf;
  /** Replaces the known filters of the stores by those in the database. */
  read: (sql: Queryable, storeIds: readonly number[]) => Promise<void>;
};

export function createFilters(): Filters {
  const known = new LRUCache<number, readonly KnownFilter[]>({
    maxSize: FILTERS_MAX,
    sizeCalculation: ({ length }) => length,
  });
  return {
    of: (storeId) => known.get(storeId),
    read: async (sql, storeIds) => {
      const filters = await readFilters(sql, storeIds);
      for (const storeId of storeIds) {
        const ofStore = filters.get(storeId);
        if (ofStore === undefined) known.delete(storeId);
        else known.set(storeId, ofStore);
      }
    },
  };
}

const literalOf = (ids: readonly string[]): string => `{${ids.join(',')}}`;

/** A store with many filters of long patterns takes up to half a second for an event of long texts; others are served meanwhile. */
const PAUSED_AFTER_MS = 10;

/** Evaluates the filters of each event's store. Events of stores without known filters are not parsed. */
export async function evaluateFilters(columns: PublishColumns, filtersOf: FiltersOf): Promise<FilterColumns> {
  let since = performance.now();
  const known: FilterColumns['known'] = [];
  const passed: FilterColumns['passed'] = [];
  for (const [at, storeId] of columns.storeId.entries()) {
    const filters = filtersOf(storeId)?.filter(({ type }) => type === columns.type[at]) ?? [];
    if (filters.length === 0) continue;
    const [resourceId, modifiedAt, body] = [columns.resourceId[at], columns.modifiedAt[at], columns.body[at]];
    if (resourceId === undefined || modifiedAt === undefined || body === undefined)
      throw new Error('A column is short');
    const payload = payloadOf({ resourceId, modifiedAt, body });
    while (known.length < at) known.push(null);
    while (passed.length < at) passed.push(null);
    known.push(literalOf(filters.map(({ id }) => id)));
    const ids: string[] = [];
    // What has only an id passes every filter: a receiver of the resource must not miss that it is deleted.
    const isBare = columns.isDeletion[at] === true || columns.isNotice[at] === true;
    for (const { id, passes } of filters) {
      if (isBare || passes(payload)) ids.push(id);
      if (performance.now() - since < PAUSED_AFTER_MS) continue;
      await pause();
      since = performance.now();
    }
    passed.push(literalOf(ids));
  }
  return { known, passed };
}

/** Returns whether a statement failed because a webhook has a filter that was not evaluated. */
export function isUnknownFilter(error: unknown): boolean {
  return error instanceof Error && (error as { code?: unknown }).code === 'HL002';
}

const CHANGING = 'The filter of a webhook of this store is being changed by another request: retry in a second';

/** Maps the failure of a statement in a transaction that cannot be repeated to a 503. */
export function busyIfUnknownFilter(error: unknown): never {
  if (!isUnknownFilter(error)) throw error;
  throw temporary(503, { code: 'busy', message: CHANGING }, 1, { cause: error });
}
