/** Writes internal events in the transaction of the change that they describe. */
import { createHash } from 'node:crypto';
import type { Queryable } from '#db/pool.ts';
import { dayOf, shardOf } from '#core/ids.ts';
import { timeZonesOf } from '#catalog/catalog-sql.ts';
import type { OPERATOR_EVENT } from '#catalog/catalog.ts';
import type { AppChange, ChangelogEntry, OperatorEvent } from '#catalog/internal-types.ts';
import type { IdAllocator } from '#db/partitions.ts';
import { publishBatch, type Claim } from './publish-sql.ts';
import { busyIfUnknownFilter, evaluateFilters, readFilters } from './publish-batch.ts';
import { idAt, rowOf, toCommitted, type Committed, inLockOrder, toBatchRows } from './rows.ts';

/**
 * `resource` returns the representation, or its JSON text if numbers need more digits than JavaScript numbers have. The id of
 * the resource is the id of the event; its dates use the given time zone. `action` is absent for `created`. `key`: an idempotency key that
 * is not stored yet (`findKeys`).
 */
export type InternalEvent = { storeId: number; key?: string } & (
  | { type: 'changelog'; action?: undefined; resource: (context: Context) => ChangelogEntry }
  | {
      type: 'app';
      action: 'installed' | 'uninstalled' | 'scopes_changed' | 'store_erased';
      resource: (context: Context) => AppChange;
    }
  | {
      type: typeof OPERATOR_EVENT;
      action:
        | 'webhook_disabled'
        | 'delivery_exhausted'
        | 'app_installed'
        | 'app_uninstalled'
        | 'store_created'
        | 'store_suspended';
      resource: (context: Context) => OperatorEvent;
    }
  | { type: 'subscription_mrr_snapshot'; action?: undefined; resource: (context: Context) => string }
);

type Context = { id: number; timeZone: string };

export type InternalEventDeps = {
  allocateIds: IdAllocator;
  baseUrl: string;
  /** Called within the transaction with the deliveries, which exist when it commits. */
  announce: (tx: Queryable, deliveries: readonly Committed[]) => Promise<void>;
};

/** Writes internal events and returns the ids of their resources, in order; 0 for an event of a store that does not exist. */
export type InternalEventWriter = (tx: Queryable, events: readonly InternalEvent[], now: Date) => Promise<number[]>;

/** Returns the keys of the events. The fingerprint is that of the key, which names one event. */
const claimsOf = (rows: readonly { storeId: number; eventId: number; key?: string | undefined }[]): Claim[] =>
  rows.flatMap(({ storeId, eventId, key }) => {
    if (key === undefined) return [];
    return [{ storeId, key, fingerprint: createHash('sha256').update(key).digest(), eventIds: `{${eventId}}` }];
  });

export function createInternalEventWriter({ allocateIds, baseUrl, announce }: InternalEventDeps): InternalEventWriter {
  return async (tx, events, now) => {
    if (events.length === 0) return [];
    const storeIds = [...new Set(events.map(({ storeId }) => storeId))];
    // The filters in the database, because the transaction may change them and cannot be repeated here.
    const [zones, known] = await Promise.all([timeZonesOf(tx, storeIds), readFilters(tx, storeIds)]);
    const shards = events.map(({ storeId }) => shardOf(storeId));
    const ids = await allocateIds(tx, { day: dayOf(now), shards }, 'inTransaction');
    const rows = events.map(({ storeId, type, action = 'created', key, resource }, at) => {
      const timeZone = zones.get(storeId);
      if (timeZone === undefined) return undefined;
      const empty = { type, action, resourceId: '', modifiedAt: null, body: '' };
      const row = rowOf(empty, storeId, { id: idAt(ids, at), at });
      const { eventId: id } = row;
      const representation = resource({ id, timeZone });
      const body = typeof representation === 'string' ? representation : JSON.stringify(representation);
      return { ...row, key, event: { ...empty, resourceId: String(id), body } };
    });
    const existing = rows.filter((row) => row !== undefined);
    if (existing.length > 0) {
      const batchRows = toBatchRows(existing.toSorted(inLockOrder), now);
      const filters = await evaluateFilters(batchRows, (storeId) => known.get(storeId));
      const claims = claimsOf(existing);
      const batch = { rows: batchRows, filters, claims, terms: [], day: dayOf(now), now, baseUrl };
      const committed = toCommitted(existing, await publishBatch(tx, batch).catch(busyIfUnknownFilter), batch);
      if (committed.length > 0) await announce(tx, committed);
    }
    return rows.map((row) => row?.eventId ?? 0);
  };
}
