/** Rows of events for the database, the deliveries that were created with them, and the results of the requests. */
import { randomFillSync } from 'node:crypto';
import type { FrozenEvent } from '#catalog/document.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import type { Row } from './columns.ts';
import type { Published, ClaimColumns } from './batch-sql.ts';
import { notFound, type Problem } from '#core/problem.ts';
import type { Ready } from './key.ts';
import type { PublishedEvent } from './publish.ts';
import type { ListedEvent } from '../events-sql.ts';

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

/**
 * Returns the number allocated for the event at a position. Throws if there are too few, because two events with the same id
 * would lose one.
 */
export function numberAt(numbers: readonly number[], at: number): number {
  const n = numbers[at];
  if (n === undefined) throw new Error(`There is no number for event ${at} of ${numbers.length}`);
  return n;
}

export function rowOf(event: Row['event'], storeId: number, { n, at, now }: { n: number; at: number; now: Date }): Row {
  const shard = shardOf(storeId);
  const eventId = dailyIdOf(dayOf(now), n, shard);
  return { event, storeId, shard, eventId, nonce: nextNonce(), at };
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
    const { shard, storeId, nonce } = row;
    const { type, resourceId, action, body } = row.event;
    const event = { id: eventId, type, resourceId, action, version, nonce, baseUrl, dateCreated: now, body };
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

/** Makes the rows of the new events; `numbers` has one number for each. */
export function toDrafts(ready: readonly Ready[], numbers: readonly number[], now: Date): Draft[] {
  let at = 0;
  return ready.map((one) => {
    const rows = new Map<number, Row>();
    for (const [index, event] of one.request.events.entries()) {
      if (one.repeated.has(index)) continue;
      rows.set(index, rowOf(event, one.request.storeId, { n: numberAt(numbers, at), at, now }));
      at += 1;
    }
    return Object.assign(one, { rows });
  });
}

/** Returns the keys that the batch claims; null if there are none. */
export function claimsOf(drafts: readonly Draft[]): ClaimColumns | null {
  const claims = drafts.flatMap(({ request: { storeId }, claims: keys, rows }) =>
    keys.map((key) => {
      const ids = Array.from({ length: key.to - key.from }, (_, index) => rows.get(key.from + index)?.eventId);
      return {
        shard: shardOf(storeId),
        storeId,
        key: key.name,
        fingerprint: key.fingerprint,
        eventIds: `{${ids.join(',')}}`,
      };
    }),
  );
  if (claims.length === 0) return null;
  return {
    shard: claims.map(({ shard }) => shard),
    storeId: claims.map(({ storeId }) => storeId),
    key: claims.map(({ key }) => key),
    fingerprint: claims.map(({ fingerprint }) => fingerprint),
    eventIds: claims.map(({ eventIds }) => eventIds),
  };
}

/** Returns one result per event of the request, or a 404 if some were not written because the store does not exist. */
export function resultOf(
  { request, repeated, rows }: Draft,
  context: { before: ReadonlyMap<number, ListedEvent>; written: ReadonlyMap<number, Published>; now: Date },
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
