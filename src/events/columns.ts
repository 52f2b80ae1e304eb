/** A batch of events as the columns of one statement. */
import type { PublishColumns } from './queries.ts';
import type { NewEvent } from './request.ts';

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

/** Rows in lock order → columns; of each resource the newest row (the later of two equal ones) becomes the latest. */
export const toColumns = (rows: readonly Row[], now: Date): PublishColumns => {
  const modifiedAt = rows.map((row) => row.event.modifiedAt ?? now);
  const after: number[] = Array.from(rows, () => 0);
  const total: number[] = Array.from(rows, () => 0);
  for (let start = 0, end = 0; start < rows.length; start = end) {
    let newest = start;
    for (end = start; end < rows.length; end += 1) {
      const [first, row] = [rows[start], rows[end]];
      if (first === undefined || row === undefined || !isSameResource(first, row)) break;
      if (Number(modifiedAt[end]) >= Number(modifiedAt[newest])) newest = end;
    }
    total[newest] = end - start;
    for (let index = start; index < end; index += 1) after[index] = end - 1 - index;
  }
  return {
    shard: rows.map((row) => row.shard),
    storeId: rows.map((row) => row.storeId),
    eventId: rows.map((row) => row.eventId),
    type: rows.map((row) => row.event.type),
    resourceId: rows.map((row) => row.event.resourceId),
    action: rows.map((row) => row.event.action),
    nonce: rows.map((row) => row.nonce),
    body: rows.map((row) => row.event.body),
    modifiedAt,
    after,
    total,
  };
};
