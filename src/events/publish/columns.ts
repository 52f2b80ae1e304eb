/** A batch of events as the columns of one statement. */
import type { NewEvent } from './request.ts';

/** The columns of a batch: one entry an event, sorted by shard, store, type and resource id. */
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
  /** How many newer events of the same resource follow this one in the batch. */
  after: number[];
  /** How many events of this resource are newer each than those before; 0 unless this is the last of them. */
  total: number[];
  /** Older than one before it in the batch. */
  isStale: boolean[];
  /** Whether `modifiedAt` is the publisher's word; else it is when it was published. */
  isDated: boolean[];
  /** Of the last that is newer, the newest date that any of its resource have. */
  datedAt: (Date | null)[];
  /** The event of the same resource before this one in the batch. */
  previousId: (number | null)[];
  /** The last event of this resource in the batch. */
  headId: number[];
  /** Of a subscription, the last step in the batch that was derived from it; of such a step, the one before it. */
  stepId: (number | null)[];
  /** Of the first of those steps, the subscription, which knows the one before it; its id. */
  aboutId: (string | null)[];
  /** Where it stood in the order of arrival, which is the order of its deliveries. */
  at: number[];
};

/** `at`: where it stood in the order of arrival. */
export type Row = { event: NewEvent; storeId: number; shard: number; eventId: number; nonce: number; at: number };

const compare = (a: string | number, b: string | number): number => (a < b ? -1 : Number(a > b));

/** Every batch takes its rows in this order, so two of them never wait for one another in a circle. */
export const inLockOrder = (a: Row, b: Row): number =>
  compare(a.shard, b.shard) ||
  compare(a.storeId, b.storeId) ||
  compare(a.event.type, b.event.type) ||
  compare(a.event.resourceId, b.event.resourceId) ||
  a.at - b.at;

const isSameResource = (a: Row, b: Row): boolean =>
  a.storeId === b.storeId && a.event.type === b.event.type && a.event.resourceId === b.event.resourceId;

/** The events of one resource, as many as there are in rows that stand in lock order; each in the order of arrival. */
export const byResource = <T extends Row>(rows: readonly T[]): T[][] => {
  const groups: T[][] = [];
  for (const row of rows) {
    const last = groups.at(-1);
    if (last?.[0] !== undefined && isSameResource(last[0], row)) last.push(row);
    else groups.push([row]);
  }
  return groups;
};

/** An event as one of a resource's; `isStale` where one before it has a newer date. */
export type Placed<T extends Row> = { row: T; isStale: boolean };

/**
 * What each event of one resource is after those before it, beginning with the newest date that there was (`since`). By
 * date_modified an older one is stale, of two with the same date the later one is newer, and one without a date is always new:
 * when it was published says nothing, since the clocks of publishers and ours differ, and so do their seconds.
 */
export const inOrder = <T extends Row>(rows: readonly T[], since?: Date): Placed<T>[] => {
  let newestMs = since?.getTime() ?? Number.NEGATIVE_INFINITY;
  return rows.map((row) => {
    const atMs = row.event.modifiedAt?.getTime();
    const isStale = atMs !== undefined && atMs < newestMs;
    if (atMs !== undefined && !isStale) newestMs = atMs;
    return { row, isStale };
  });
};

/**
 * Whether an event without a date would be the latest if the dated one after it turned out to be older than what is there. The
 * statement knows one that becomes the latest and no second, so what is there has to be read before it.
 */
export const isUnsettled = (group: readonly Row[]): boolean => {
  const newer = inOrder(group).filter(({ isStale }) => !isStale);
  return newer.at(-1)?.row.event.modifiedAt !== null && newer.some(({ row }) => row.event.modifiedAt === null);
};

/** The newest date that there was of a resource, where it was read and its row locked. */
export type Since = (row: Row) => Date | undefined;

/** The subscription that a row is a version of, or that was the source of it. */
const subscriptionOf = ({ storeId, event }: Row): string => `${storeId} ${event.about ?? event.resourceId}`;

const stepsBySubscription = (rows: readonly Row[]): ReadonlyMap<string, Row[]> =>
  Map.groupBy(
    rows.filter(({ event }) => event.about !== undefined),
    subscriptionOf,
  );

/**
 * Rows in lock order → columns. Which of a resource becomes the latest is settled by the statement, which knows the stored
 * version; where that was read before, what followed from it and what is written agree.
 */
export const toColumns = (rows: readonly Row[], now: Date, since: Since = () => undefined): PublishColumns => {
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
    const placed = inOrder(group, group[0] && since(group[0]));
    // Where none is newer, the last stands for them: it moves the chain of events on and nothing else.
    const isNone = placed.every(({ isStale }) => isStale);
    const newest = isNone ? placed.length - 1 : placed.findLastIndex(({ isStale }) => !isStale);
    const total = isNone ? 1 : placed.filter(({ isStale }) => !isStale).length;
    // Dates that are newer rise, so the last of them is the newest.
    const dated = placed.findLast(({ row, isStale }) => !isStale && row.event.modifiedAt !== null);
    let after = total;
    for (const [index, { row, isStale }] of placed.entries()) {
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
      columns.isDated.push(row.event.modifiedAt !== null);
      columns.datedAt.push(index === newest ? (dated?.row.event.modifiedAt ?? null) : null);
      columns.previousId.push(group[index - 1]?.eventId ?? null);
      columns.headId.push(group.at(-1)?.eventId ?? row.eventId);
      const { about } = row.event;
      const own =
        about === undefined && row.event.type !== 'subscription' ? [] : (steps.get(subscriptionOf(row)) ?? []);
      const before = about === undefined ? own.at(-1) : own[own.indexOf(row) - 1];
      columns.stepId.push(before?.eventId ?? null);
      columns.aboutId.push(before === undefined ? (about ?? null) : null);
    }
  }
  return columns;
};
