/** The versions that are there before a batch, where what is written depends on them: read and locked first. */
import type { Queryable } from '#db/pool.ts';
import { byResource, inLockOrder, isUnsettled, type Row, type Since } from './columns.ts';
import type { Published } from './batch-sql.ts';
import { lockPreviousVersions, type PreviousVersion } from './previous-version-sql.ts';

/** Another process was the first to publish a resource that was new to this one. */
export class Overtaken extends Error {
  override readonly name = 'Overtaken';
}

export type PreviousVersions = {
  of: (row: Row) => PreviousVersion | undefined;
  since: Since;
  /** To be called with what was written: throws `Overtaken` where a version was there that had not been seen. */
  check: (answer: readonly Published[]) => void;
};

const dependent = (rows: readonly Row[]): Row[][] =>
  byResource(rows.toSorted(inLockOrder)).filter(
    (group) => group[0]?.event.type === 'subscription' || isUnsettled(group),
  );

/** Whether any but subscriptions depend on what is there: those of which some have dates and some have none. */
export const dependOnPreviousVersions = (rows: readonly Row[]): boolean => {
  const isMixed =
    rows.some(({ event }) => event.modifiedAt === null) && rows.some(({ event }) => event.modifiedAt !== null);
  return isMixed && dependent(rows).length > 0;
};

const keyOf = (storeId: number, type: string, id: string): string => `${storeId} ${type} ${id}`;

/** Of the rows that depend on them, until the transaction ends. */
export const readPreviousVersions = async (tx: Queryable, rows: readonly Row[]): Promise<PreviousVersions> => {
  const firsts = dependent(rows).flatMap(([row]) => row ?? []);
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
  const unseen = new Set(firsts.filter((row) => of(row) === undefined).map(({ eventId }) => eventId));
  return {
    of,
    since: (row) => of(row)?.datedAt ?? undefined,
    check: (answer) => {
      if (answer.some(({ eventId, previousId }) => previousId !== null && unseen.has(eventId)))
        throw new Overtaken('a resource that was new was published by somebody else meanwhile');
    },
  };
};
