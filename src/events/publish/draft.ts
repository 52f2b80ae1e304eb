/** A request of a batch with the rows that it writes, and its result after they are written. */
import { shardOf } from '#core/ids.ts';
import { notFound, type Problem } from '#core/problem.ts';
import type { Ready } from './key.ts';
import type { PublishedEvent } from './publish.ts';
import type { ListedEvent } from '../events-sql.ts';
import type { Row } from './columns.ts';
import type { ClaimColumns, Published } from './batch-sql.ts';
import { numberAt, rowOf } from './rows.ts';

/** `rows`: the new events by position in the request, without repeated ones. */
export type Draft = Ready & { rows: ReadonlyMap<number, Row> };

/** Returns the shard of each new event. */
export const shardsOfNew = (ready: readonly Ready[]): number[] =>
  ready.flatMap(({ request, repeated }) =>
    Array.from({ length: request.events.length - repeated.size }, () => shardOf(request.storeId)),
  );

/** Makes the rows of the new events; `numbers` has one number for each. */
export const toDrafts = (ready: readonly Ready[], numbers: readonly number[], now: Date): Draft[] => {
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
};

/** Returns the keys that the batch claims; null if there are none. */
export const claimsOf = (drafts: readonly Draft[]): ClaimColumns | null => {
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
};

/** Returns one result per event of the request, or a 404 if some were not written because the store does not exist. */
export const resultOf = (
  { request, repeated, rows }: Draft,
  context: { before: ReadonlyMap<number, ListedEvent>; written: ReadonlyMap<number, Published>; now: Date },
): PublishedEvent[] | Problem => {
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
};
