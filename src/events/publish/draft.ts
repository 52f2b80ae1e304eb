/** A request of a batch with the rows that it writes, and what it is answered when they are written. */
import { shardOf } from '#core/ids.ts';
import { notFound, type Problem } from '#core/problem.ts';
import type { Ready } from './recall.ts';
import type { PublishedEvent } from './publish.ts';
import type { ListedEvent } from '../events-sql.ts';
import type { Row } from './columns.ts';
import type { ClaimColumns, Published } from './batch-sql.ts';
import { numberAt, rowOf } from './rows.ts';

/** `rows`: those of its events that did not come before, by their places in the request. */
export type Draft = Ready & { rows: ReadonlyMap<number, Row> };

/** Returns the shard of each new event. */
export const shardsOfNew = (ready: readonly Ready[]): number[] =>
  ready.flatMap(({ request, repeated }) =>
    Array.from({ length: request.events.length - repeated.size }, () => shardOf(request.storeId)),
  );

/** As many numbers as there are new events. */
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

/** The keys that the batch takes; null where it takes none. */
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

/** One result for each event of the request, or a 404: what is missing is of a store that is gone. */
export const answerOf = (
  { request, repeated, rows }: Draft,
  given: { before: ReadonlyMap<number, ListedEvent>; written: ReadonlyMap<number, Published>; now: Date },
): PublishedEvent[] | Problem => {
  const events = request.events.flatMap(({ type, resourceId, action }, index): PublishedEvent[] => {
    const [known, row] = [repeated.get(index), rows.get(index)];
    if (known === undefined && row === undefined) throw new Error(`Event ${index} of a request is in no batch`);
    const came = known === undefined ? undefined : given.before.get(known);
    if (came !== undefined) return [came];
    const found = row && given.written.get(row.eventId);
    if (found === undefined) return [];
    const { eventId: id, version, timeZone } = found;
    return [{ id, type, resourceId, action, version, timeZone, dateCreated: given.now }];
  });
  return events.length < request.events.length ? notFound('store') : events;
};
