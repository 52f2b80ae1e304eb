/** Events that Halcyon writes itself, in the transaction of what they tell of. */
import type { Queryable } from '#db/pool.ts';
import { dayOf, shardOf } from '#core/ids.ts';
import type { Value } from '#hypermedia/document.ts';
import { inLockOrder, toColumns } from './columns.ts';
import type { IdAllocator } from './id-allocator.ts';
import { publishBatch } from './batch-sql.ts';
import { numberAt, rowOf, toCommitted, type Committed } from './rows.ts';
import { staleAt } from './recall.ts';
import { timeZonesOf } from '../events-sql.ts';

/**
 * `resource` makes the representation, or its JSON text where numbers need more digits than JavaScript's have; its id is the
 * event's own, its dates are shown in the time zone it is given.
 */
export type Fact = {
  storeId: number;
  type: 'changelog' | 'subscription_mrr_snapshot';
  resource: (given: { id: number; timeZone: string }) => { readonly [name: string]: Value } | string;
};

export type InternalEventDeps = {
  allocateIds: IdAllocator;
  baseUrl: string;
  /** Told within the transaction of the deliveries that come of it: they are there when it commits. */
  announce: (tx: Queryable, deliveries: readonly Committed[]) => Promise<void>;
};

/** Writes facts; answers the ids of their resources, in order. A fact about a store that is gone is none: 0. */
export type InternalEventWriter = (tx: Queryable, facts: readonly Fact[], now: Date) => Promise<number[]>;

export const createInternalEventWriter =
  ({ allocateIds, baseUrl, announce }: InternalEventDeps): InternalEventWriter =>
  async (tx, facts, now) => {
    if (facts.length === 0) return [];
    const zones = await timeZonesOf(tx, [...new Set(facts.map(({ storeId }) => storeId))]);
    const shards = facts.map(({ storeId }) => shardOf(storeId));
    const numbers = await allocateIds(tx, { day: dayOf(now), shards }, 'inTransaction');
    const rows = facts.map(({ storeId, type, resource }, at) => {
      const timeZone = zones.get(storeId);
      if (timeZone === undefined) return undefined;
      const empty = { type, action: 'created', resourceId: '', modifiedAt: null, body: '' };
      const row = rowOf(empty, storeId, { n: numberAt(numbers, at), at, now });
      const { eventId: id } = row;
      const made = resource({ id, timeZone });
      const body = typeof made === 'string' ? made : JSON.stringify(made);
      return { ...row, event: { ...empty, resourceId: String(id), body } };
    });
    const there = rows.filter((row) => row !== undefined);
    if (there.length > 0) {
      const columns = toColumns(there.toSorted(inLockOrder), now);
      const batch = { columns, claims: null, terms: null, staleAt: staleAt(now), day: dayOf(now), now, baseUrl };
      const committed = toCommitted(there, await publishBatch(tx, batch), batch);
      if (committed.length > 0) await announce(tx, committed);
    }
    return rows.map((row) => row?.eventId ?? 0);
  };
