/** Events on their way into the tables, and the deliveries that come of them. */
import { randomFillSync } from 'node:crypto';
import type { FrozenEvent } from '#catalog/document.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import type { Row } from './columns.ts';
import type { Published } from './batch-sql.ts';

/** A delivery that was just committed, with what its owner needs to send it without reading the database again. */
export type Committed = {
  shard: number;
  deliveryId: number;
  storeId: number;
  webhookId: number;
  epoch: number;
  /** It waits for a listener, and is handed to nobody else. */
  isHeld: boolean;
  /** When its first attempt became due: the time of the batch, which is when the last of its requests arrived. */
  dueAt: Date;
  event: FrozenEvent;
};

/** 48 random bits each. From a block of bytes, because asking for six of them takes 3 µs, which a batch of 500 would notice. */
const createNonces = (): (() => number) => {
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
};
export const nextNonce = createNonces();

/** The number that was drawn for the event at a place; throws where too few were, because two events with one id are one lost. */
export const numberAt = (numbers: readonly number[], at: number): number => {
  const n = numbers[at];
  if (n === undefined) throw new Error(`There is no number for event ${at} of ${numbers.length}`);
  return n;
};

export const rowOf = (
  event: Row['event'],
  storeId: number,
  { n, at, now }: { n: number; at: number; now: Date },
): Row => {
  const shard = shardOf(storeId);
  const eventId = dailyIdOf(dayOf(now), n, shard);
  return { event, storeId, shard, eventId, nonce: nextNonce(), at };
};

/** The rows that were written, with what came back for each: the event and its deliveries, in the order of their ids. */
export const toCommitted = (
  rows: readonly Row[],
  answer: readonly Published[],
  { baseUrl, now: dueAt }: { baseUrl: string; now: Date },
): Committed[] => {
  const byId = new Map(rows.map((row) => [row.eventId, row]));
  const deliveries = answer.flatMap(({ eventId, version, deliveryId, webhookId, epoch, isHeld }) => {
    const row = byId.get(eventId);
    if (row === undefined || deliveryId === null || webhookId === null || epoch === null) return [];
    const { shard, storeId, nonce } = row;
    const { type, resourceId, action, body } = row.event;
    const event = { id: eventId, type, resourceId, action, version, nonce, baseUrl, body };
    return [{ shard, deliveryId, storeId, webhookId, epoch, isHeld: isHeld === true, dueAt, event }];
  });
  return deliveries.toSorted((a, b) => a.deliveryId - b.deliveryId);
};
