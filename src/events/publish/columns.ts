/** Converts a batch of events to the column arrays of one SQL statement. */
import type { NewEvent } from './request.ts';

/** Columns of a batch, one element per event, sorted by shard, store, type and resource id. */
export type PublishColumns = {
  shard: number[];
  storeId: number[];
  eventId: number[];
  type: string[];
  resourceId: string[];
  action: string[];
  nonce: number[];
  modifiedAt: Date[];
  body: string[];
  /** Number of events of the same resource that follow this one in the batch and are not stale. */
  after: number[];
  /** Number of events of this resource that are not stale; 0 except at the newest of them. */
  total: number[];
  /** Whether an earlier event of the batch has a newer date. */
  isStale: boolean[];
  /** Whether `modifiedAt` decides which version is the latest. */
  isDated: boolean[];
  /** At the newest event: the newest date of its resource in the batch. */
  datedAt: (Date | null)[];
  /** Previous event of the same resource in the batch. */
  previousId: (number | null)[];
  /** Last event of this resource in the batch. */
  headId: number[];
  /** For a subscription, the last step in the batch that was derived from it; for such a step, the previous one. */
  stepId: (number | null)[];
  /** For the first of those steps, the id of the subscription, whose row has the id of the previous step. */
  aboutId: (string | null)[];
  /** Position in the order of arrival, which is the order of the deliveries. */
  at: number[];
};

/** `at`: position in the order of arrival. */
export type Row = { event: NewEvent; storeId: number; shard: number; eventId: number; nonce: number; at: number };

const compare = (a: string | number, b: string | number): number => (a < b ? -1 : Number(a > b));

/** Compares rows by the order in which every batch locks them, which prevents deadlocks between batches. */
export function inLockOrder(a: Row, b: Row): number {
  return (
    compare(a.shard, b.shard) ||
    compare(a.storeId, b.storeId) ||
    compare(a.event.type, b.event.type) ||
    compare(a.event.resourceId, b.event.resourceId) ||
    a.at - b.at
  );
}

const isSameResource = (a: Row, b: Row): boolean =>
  a.storeId === b.storeId && a.event.type === b.event.type && a.event.resourceId === b.event.resourceId;

/** Groups rows in lock order by resource; each group keeps the order of arrival. */
export function byResource<T extends Row>(rows: readonly T[]): T[][] {
  const groups: T[][] = [];
  for (const row of rows) {
    const last = groups.at(-1);
    if (last?.[0] !== undefined && isSameResource(last[0], row)) last.push(row);
    else groups.push([row]);
  }
  return groups;
}

/** An event; `isStale` if an earlier event of its resource has a newer date. */
export type MarkedRow<T extends Row> = { row: T; isStale: boolean };

/**
 * Returns the date that decides which version is the latest; null for an event without one. A date in the future would make all later
 * versions stale, so the event counts as one without a date.
 */
export function decisiveDate({ modifiedAt, isAhead }: NewEvent): Date | null {
  return isAhead === true ? null : modifiedAt;
}

/**
 * Marks the stale events of one resource, beginning with the newest stored date (`newestDate`). An event is stale if its
 * date_modified is older; of two equal dates the later event wins, and an event without a date is never stale. The time of
 * publishing is not compared, because it has another clock and precision than the dates of publishers.
 */
export function markStale<T extends Row>(rows: readonly T[], newestDate?: Date): MarkedRow<T>[] {
  let newestMs = newestDate?.getTime() ?? Number.NEGATIVE_INFINITY;
  return rows.map((row) => {
    const atMs = decisiveDate(row.event)?.getTime();
    const isStale = atMs !== undefined && atMs < newestMs;
    if (atMs !== undefined && !isStale) newestMs = atMs;
    return { row, isStale };
  });
}

/**
 * Returns whether the newest stored date decides which event of the group becomes the latest: an event without a date is followed
 * by a dated one, which may turn out to be stale. The statement handles only one candidate, so the stored version has to be read
 * first.
 */
export function dependsOnStored(group: readonly Row[]): boolean {
  const newer = markStale(group).filter(({ isStale }) => !isStale);
  const dates = newer.map(({ row }) => decisiveDate(row.event));
  return dates.at(-1) !== null && dates.includes(null);
}

/** Returns the newest stored date of the row's resource, if it was read and locked. */
export type NewestDateOf = (row: Row) => Date | undefined;

/** Returns the key of the subscription that the row is a version of or was derived from. */
const subscriptionOf = ({ storeId, event }: Row): string => `${storeId} ${event.about ?? event.resourceId}`;

const stepsBySubscription = (rows: readonly Row[]): ReadonlyMap<string, Row[]> =>
  Map.groupBy(
    rows.filter(({ event }) => event.about !== undefined),
    subscriptionOf,
  );

/**
 * Converts rows in lock order to columns. The statement decides which event becomes the latest, because it sees the stored
 * version; if that was read before, derived events agree with it.
 */
export function toColumns(
  rows: readonly Row[],
  now: Date,
  newestDateOf: NewestDateOf = () => undefined,
): PublishColumns {
  const columns: PublishColumns = {
    shard: [],
    storeId: [],
    eventId: [],
    type: [],
    resourceId: [],
    action: [],
    nonce: [],
    modifiedAt: [],
    body: [],
    after: [],
    total: [],
    isStale: [],
    isDated: [],
    datedAt: [],
    previousId: [],
    headId: [],
    stepId: [],
    aboutId: [],
    at: [],
  };
  const steps = stepsBySubscription(rows);
  for (const group of byResource(rows)) {
    const marked = markStale(group, group[0] && newestDateOf(group[0]));
    // If all are stale, the last one extends the chain of events and changes nothing else.
    const allStale = marked.every(({ isStale }) => isStale);
    const newest = allStale ? marked.length - 1 : marked.findLastIndex(({ isStale }) => !isStale);
    const total = allStale ? 1 : marked.filter(({ isStale }) => !isStale).length;
    // The dates of events that are not stale increase, so the last one is the newest.
    const dated = marked.findLast(({ row, isStale }) => !isStale && decisiveDate(row.event) !== null);
    let after = total;
    for (const [index, { row, isStale }] of marked.entries()) {
      if (!isStale) after -= 1;
      columns.shard.push(row.shard);
      columns.storeId.push(row.storeId);
      columns.eventId.push(row.eventId);
      columns.type.push(row.event.type);
      columns.resourceId.push(row.event.resourceId);
      columns.action.push(row.event.action);
      columns.nonce.push(row.nonce);
      columns.at.push(row.at);
      columns.modifiedAt.push(row.event.modifiedAt ?? now);
      columns.body.push(row.event.body);
      columns.after.push(after);
      columns.total.push(index === newest ? total : 0);
      columns.isStale.push(isStale);
      columns.isDated.push(decisiveDate(row.event) !== null);
      columns.datedAt.push(index === newest ? (dated === undefined ? null : decisiveDate(dated.row.event)) : null);
      columns.previousId.push(group[index - 1]?.eventId ?? null);
      columns.headId.push(group.at(-1)?.eventId ?? row.eventId);
      const { about } = row.event;
      const ownSteps =
        about === undefined && row.event.type !== 'subscription' ? [] : (steps.get(subscriptionOf(row)) ?? []);
      const previousStep = about === undefined ? ownSteps.at(-1) : ownSteps[ownSteps.indexOf(row) - 1];
      columns.stepId.push(previousStep?.eventId ?? null);
      columns.aboutId.push(previousStep === undefined ? (about ?? null) : null);
    }
  }
  return columns;
}
