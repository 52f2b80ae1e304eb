/**
 * The rows of a batch: made from requests, placed among those of their resources, and turned into the deliveries that were created with
 * them and the results of the requests.
 */
import { randomFillSync } from 'node:crypto';
import type { FrozenEvent } from '#catalog/resource-document.ts';
import { shardOf } from '#core/ids.ts';
import type { TraceContext } from '#core/tracing.ts';
import type { NewEvent } from './publish-request.ts';
import type { Claim, Published } from './publish-sql.ts';
import { notFound, type Problem } from '#core/problem.ts';
import type { Ready } from './key.ts';
import type { PublishedEvent } from './publish.ts';

/** `at`: position in the order of arrival. */
export type Row = {
  event: NewEvent;
  storeId: number;
  shard: number;
  eventId: number;
  nonce: number;
  at: number;
  traceContext: TraceContext | null;
};

/** A delivery that was just committed, with all data that the shard owner needs to send it without a database read. */
export type Committed = {
  shard: number;
  deliveryId: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  /** Whether it waits for a pull client and no worker sends it. */
  isHeld: boolean;
  /** When its first attempt is due: the time of the batch, which is the arrival of its last request. */
  dueAt: Date;
  event: FrozenEvent;
};

/**
 * Returns a generator of 48-bit random numbers. It reads random bytes in blocks, because a read of six bytes takes 3 µs, which
 * is noticeable in a batch of 500.
 */
function createNonces(): () => number {
  const bytes = Buffer.alloc(6 * 1024);
  let at = bytes.length;
  return () => {
    if (at === bytes.length) {
      randomFillSync(bytes);
      at = 0;
    }
    at += 6;
    return bytes.readUIntBE(at - 6, 6);
  };
}
export const nextNonce = createNonces();

/** Returns the id allocated for the event at a position. Throws if there are too few: two events with the same id would lose one. */
export function idAt(ids: readonly number[], at: number): number {
  const id = ids[at];
  if (id === undefined) throw new Error(`There is no id for event ${at} of ${ids.length}`);
  return id;
}

export function rowOf(
  event: Row['event'],
  storeId: number,
  { id, at, traceContext = null }: { id: number; at: number; traceContext?: TraceContext | null },
): Row {
  return { event, storeId, shard: shardOf(storeId), eventId: id, nonce: nextNonce(), at, traceContext };
}

/** Returns the committed deliveries with their events, ordered by delivery id. */
export function toCommitted(
  rows: readonly Row[],
  returned: readonly Published[],
  { baseUrl, now }: { baseUrl: string; now: Date },
): Committed[] {
  const byId = new Map(rows.map((row) => [row.eventId, row]));
  const deliveries = returned.flatMap(({ eventId, version, deliveryId, webhookId, epoch, isHeld }) => {
    const row = byId.get(eventId);
    if (row === undefined || deliveryId === null || webhookId === null || epoch === null) return [];
    const { shard, storeId, nonce, traceContext } = row;
    const { type, resourceId, action, body } = row.event;
    const event = {
      id: eventId,
      type,
      resourceId,
      action,
      version,
      nonce,
      baseUrl,
      dateCreated: now,
      body,
      traceContext,
    };
    return [{ shard, deliveryId, storeId, webhookId, epoch, isHeld: isHeld === true, dueAt: now, event }];
  });
  return deliveries.toSorted((a, b) => a.deliveryId - b.deliveryId);
}

/**
 * A request of a batch with the rows that it writes. `rows`: the new events by position in the request, without repeated ones.
 */
export type Draft = Ready & { rows: ReadonlyMap<number, Row> };

/** Returns the shard of each new event. */
export function shardsOfNew(ready: readonly Ready[]): number[] {
  return ready.flatMap(({ request, repeated }) =>
    Array.from({ length: request.events.length - repeated.size }, () => shardOf(request.storeId)),
  );
}

/** Makes the rows of the new events; `ids` has one for each. */
export function toDrafts(ready: readonly Ready[], ids: readonly number[]): Draft[] {
  let at = 0;
  return ready.map((one) => {
    const rows = new Map<number, Row>();
    for (const [index, event] of one.request.events.entries()) {
      if (one.repeated.has(index)) continue;
      const { storeId, traceContext = null } = one.request;
      rows.set(index, rowOf(event, storeId, { id: idAt(ids, at), at, traceContext }));
      at += 1;
    }
    return Object.assign(one, { rows });
  });
}

/** Returns the keys that the batch claims. */
export function claimsOf(drafts: readonly Draft[]): Claim[] {
  return drafts.flatMap(({ request: { storeId }, claims, rows }) =>
    claims.map(({ name, fingerprint, from, to }) => {
      const ids = Array.from({ length: to - from }, (_, index) => rows.get(from + index)?.eventId);
      return { storeId, key: name, fingerprint, eventIds: `{${ids.join(',')}}` };
    }),
  );
}

/** Returns one result per event of the request, or a 404 if some were not written because the store does not exist. */
export function resultOf(
  { request, repeated, rows }: Draft,
  context: { before: ReadonlyMap<number, PublishedEvent>; written: ReadonlyMap<number, Published>; now: Date },
): PublishedEvent[] | Problem {
  const events = request.events.flatMap(({ type, resourceId, action }, index): PublishedEvent[] => {
    const [repeatedId, row] = [repeated.get(index), rows.get(index)];
    if (repeatedId === undefined && row === undefined) throw new Error(`Event ${index} of a request is in no batch`);
    const first = repeatedId === undefined ? undefined : context.before.get(repeatedId);
    if (first !== undefined) return [first];
    const written = row && context.written.get(row.eventId);
    if (written === undefined) return [];
    const { eventId: id, version, timeZone } = written;
    return [{ id, type, resourceId, action, version, timeZone, dateCreated: context.now }];
  });
  return events.length < request.events.length ? notFound('store') : events;
}

/** Returns whether the event is a version of a subscription, or a step of one. */
export function isAboutSubscriptions({ event }: Row): boolean {
  return event.type === 'subscription' || event.type === 'subscription_event';
}

/** An event of a batch, and its place among the events of its resource in the batch. */
export type BatchRow = {
  row: Row;
  modifiedAt: Date;
  /** Number of events of the same resource that follow this one in the batch and are not stale. */
  after: number;
  /** Number of events of this resource that are not stale; 0 except at the newest of them. */
  total: number;
  /** Whether an earlier event of the batch has a newer date, or the event is no version of its resource. */
  isStale: boolean;
  /** At the newest event: the newest date of its resource in the batch. */
  datedAt: Date | null;
  /** Previous event of the same resource in the batch. */
  previousId: number | null;
  /** Last event of this resource in the batch. */
  headId: number;
  /** For a subscription, the last step in the batch that was derived from it; for such a step, the previous one. */
  stepId: number | null;
  /** For the first of those steps, the id of the subscription, whose row has the id of the previous step. */
  aboutId: string | null;
};

/** Compares as the order of locks does: numbers by size, texts by their UTF-16 code units. */
export function compare(a: string | number, b: string | number): number {
  return a < b ? -1 : Number(a > b);
}

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

/** An event; `isStale` if an earlier event of its resource has a newer date, or the event is a notice. */
export type MarkedRow<T extends Row> = { row: T; isStale: boolean };

/**
 * Returns the date that decides which version is the latest; null for an event without one. A date in the future would make all later
 * versions stale, so the event counts as one without a date.
 */
export function decisiveDate({ modifiedAt, isAhead }: Pick<NewEvent, 'modifiedAt' | 'isAhead'>): Date | null {
  return isAhead === true ? null : modifiedAt;
}

/** Returns the date that later versions are compared with; null for none. */
function newestDateOfEvent(event: NewEvent): Date | null {
  return decisiveDate(event) ?? event.endedAt ?? null;
}

/**
 * Marks the stale events of one resource, beginning with the newest stored date (`newestDate`). An event is stale if its
 * date_modified is older; of two equal dates the later event wins, an event without a date is never stale, and a notice always. The time of
 * publishing is not compared, because it has another clock and precision than the dates of publishers.
 */
export function markStale<T extends Row>(rows: readonly T[], newestDate?: Date): MarkedRow<T>[] {
  let newestMs = newestDate?.getTime() ?? Number.NEGATIVE_INFINITY;
  return rows.map((row) => {
    if (row.event.kind === 'notice') return { row, isStale: true };
    const atMs = decisiveDate(row.event)?.getTime();
    const isStale = atMs !== undefined && atMs < newestMs;
    if (!isStale) newestMs = Math.max(newestMs, newestDateOfEvent(row.event)?.getTime() ?? newestMs);
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

/** Returns the last step that was derived from a subscription, or the step before one. */
function stepBefore(row: Row, steps: ReadonlyMap<string, Row[]>): Row | undefined {
  const { about, type } = row.event;
  if (about === undefined && type !== 'subscription') return undefined;
  const ownSteps = steps.get(subscriptionOf(row)) ?? [];
  return about === undefined ? ownSteps.at(-1) : ownSteps[ownSteps.indexOf(row) - 1];
}

/**
 * Places rows in lock order among those of their resources. The statement decides which event becomes the latest, because it sees the
 * stored version; if that was read before, derived events agree with it.
 */
export function toBatchRows(rows: readonly Row[], now: Date, newestDateOf: NewestDateOf = () => undefined): BatchRow[] {
  const steps = stepsBySubscription(rows);
  return byResource(rows).flatMap((group) => {
    const marked = markStale(group, group[0] && newestDateOf(group[0]));
    // If all are stale, the last one extends the chain of events and changes nothing else.
    const allStale = marked.every(({ isStale }) => isStale);
    const newest = allStale ? marked.length - 1 : marked.findLastIndex(({ isStale }) => !isStale);
    const total = allStale ? 1 : marked.filter(({ isStale }) => !isStale).length;
    const dates = marked.flatMap(({ row, isStale }) =>
      isStale ? [] : (newestDateOfEvent(row.event)?.getTime() ?? []),
    );
    const newestDate = dates.length === 0 ? null : new Date(Math.max(...dates));
    let after = total;
    return marked.map(({ row, isStale }, index): BatchRow => {
      if (!isStale) after -= 1;
      const step = stepBefore(row, steps);
      return {
        row,
        modifiedAt: row.event.modifiedAt ?? now,
        after,
        total: index === newest ? total : 0,
        isStale,
        datedAt: index === newest ? newestDate : null,
        previousId: group[index - 1]?.eventId ?? null,
        headId: group.at(-1)?.eventId ?? row.eventId,
        stepId: step?.eventId ?? null,
        aboutId: step === undefined ? (row.event.about ?? null) : null,
      };
    });
  });
}
