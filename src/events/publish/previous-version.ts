/** Reads and locks the stored versions that the result of a batch depends on. */
import type { Queryable } from '#db/pool.ts';
import {
  byResource,
  decisiveDate,
  inLockOrder,
  dependsOnStored,
  markStale,
  type Row,
  type NewestDateOf,
} from './columns.ts';
import type { Published } from './batch-sql.ts';
import { lockPreviousVersions } from './publish-sql.ts';

/** Another process published or erased a resource between the read and the write of this batch. */
export class ConcurrentPublish extends Error {
  override readonly name = 'Overtaken';
}

export type PreviousVersions = {
  /** Returns the body of the stored version; undefined if the resource does not exist. */
  bodyOf: (row: Row) => string | undefined;
  newestDateOf: NewestDateOf;
  /** Throws `ConcurrentPublish` if a resource had a version, or an erasure, that was not read before the write. */
  check: (returned: readonly Published[]) => void;
};

const dependent = (rows: readonly Row[]): Row[][] =>
  byResource(rows.toSorted(inLockOrder)).filter(
    (group) => group[0]?.event.type === 'subscription' || dependsOnStored(group),
  );

/** Returns whether resources other than subscriptions depend on stored versions: those with dated and undated events. */
export function dependOnPreviousVersions(rows: readonly Row[]): boolean {
  const dates = rows.map(({ event }) => decisiveDate(event));
  const isMixed = dates.includes(null) && dates.some((date) => date !== null);
  return isMixed && dependent(rows).length > 0;
}

const keyOf = (storeId: number, type: string, id: string): string => `${storeId} ${type} ${id}`;

/** Locks the versions that the rows depend on until the transaction ends. */
export async function readPreviousVersions(tx: Queryable, rows: readonly Row[]): Promise<PreviousVersions> {
  const groups = dependent(rows);
  const firsts = groups.flatMap(([row]) => row ?? []);
  const found = await lockPreviousVersions(tx, {
    shard: firsts.map(({ shard }) => shard),
    storeId: firsts.map(({ storeId }) => storeId),
    type: firsts.map(({ event }) => event.type),
    id: firsts.map(({ event }) => event.resourceId),
  });
  const previousVersions = new Map(
    found.map((previous) => [keyOf(previous.storeId, previous.type, previous.id), previous]),
  );
  const of = ({ storeId, event }: Row) => previousVersions.get(keyOf(storeId, event.type, event.resourceId));
  const bodyOf = (row: Row) => of(row)?.body ?? undefined;
  const newestDateOf = (row: Row) => of(row)?.newestDate ?? undefined;
  const unseen = new Set(firsts.filter((row) => bodyOf(row) === undefined).map(({ eventId }) => eventId));
  const marked = groups.flatMap((group) => markStale(group, group[0] && newestDateOf(group[0])));
  const current = new Set(marked.filter(({ isStale }) => !isStale).map(({ row }) => row.eventId));
  return {
    bodyOf,
    newestDateOf,
    check: (returned) => {
      if (returned.some(({ eventId, previousId }) => previousId !== null && unseen.has(eventId)))
        throw new ConcurrentPublish('a new resource was published concurrently by another process');
      if (returned.some(({ eventId, version }) => version === 0 && current.has(eventId)))
        throw new ConcurrentPublish('a resource was erased concurrently by another process');
    },
  };
}
