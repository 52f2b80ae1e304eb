/** One batch of publish requests: what came before is answered again, what is new is written in one statement. */
import { isUnavailable, transaction, type Queryable, type Sql } from '#database/pool.ts';
import { dayOf, shardOf } from '#kernel/ids.ts';
import { notFound, Problem } from '#kernel/problem.ts';
import { inLockOrder, toColumns, type Row } from './columns.ts';
import { recall, staleAt, type Ready } from '../keys/recall.ts';
import type { Mint } from './mint.ts';
import { rowOf, toCommitted, type Committed } from './rows.ts';
import type { PublishedEvent, Request } from '../publish.ts';
import { findEvents } from '../queries.ts';
import { publishBatch, type ClaimColumns, type Published, type TermColumns } from './queries.ts';
import { derive, isAboutSubscriptions, Overtaken, derivedElsewhere } from '../subscriptions/derive.ts';

export type BatchDeps = {
  sql: Sql;
  mint: Mint;
  baseUrl: string;
  /** Told of every delivery after its commit, in the process that committed it. */
  onCommitted: (deliveries: readonly Committed[]) => void;
  /** A batch failed in a way that leaves open whether it was committed. */
  onUnknown: (error: unknown) => void;
};

/** Each time somebody else was faster with a key or a new subscription, which is then there to be found. */
const TRIES_MAX = 10;

const isOvertaken = (error: unknown): boolean =>
  error instanceof Overtaken || (error instanceof Error && (error as { code?: unknown }).code === 'HL001');

type Settled = PublishedEvent[] | Problem;

/** What a batch writes, and what a request of it gets in the end. */
type Draft = Ready & { rows: ReadonlyMap<number, Row> };

const claimsOf = (drafts: readonly Draft[]): ClaimColumns | null => {
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

export const createBatchWriter = ({ sql, mint, baseUrl, onCommitted, onUnknown }: BatchDeps) => {
  /** Rows for the events that did not come before. */
  const draft = async (ready: readonly Ready[], now: Date): Promise<Draft[]> => {
    const count = ready.reduce((sum, { request, repeated }) => sum + request.events.length - repeated.size, 0);
    const numbers = await mint(sql, count);
    let at = 0;
    return ready.map((one) => {
      const rows = new Map<number, Row>();
      for (const [index, event] of one.request.events.entries()) {
        if (one.repeated.has(index)) continue;
        rows.set(index, rowOf(event, one.request.storeId, { n: numbers[at] ?? 0, at, now }));
        at += 1;
      }
      return { ...one, rows };
    });
  };

  const writeRows = async (
    on: Queryable,
    rows: readonly Row[],
    also: { claims: ClaimColumns | null; terms: TermColumns | null; now: Date },
  ): Promise<Published[]> => {
    const { now } = also;
    const columns = toColumns(rows.toSorted(inLockOrder), now);
    return publishBatch(on, { ...also, columns, staleAt: staleAt(now), day: dayOf(now), baseUrl });
  };

  /** All that is known of the batch's events when it is committed; those of drafts that were refused are not among them. */
  const write = async (drafts: readonly Draft[], now: Date) => {
    const rows = drafts.flatMap((one) => [...one.rows.values()]);
    if (rows.length === 0) return { rows, answer: [], refused: new Set<Draft>() };
    if (!rows.some(isAboutSubscriptions)) {
      const answer = await writeRows(sql, rows, { claims: claimsOf(drafts), terms: null, now });
      return { rows, answer, refused: new Set<Draft>() };
    }
    return transaction(sql, async (tx) => {
      const derived = await derive(tx, rows, { mint, now });
      const refused = new Set(drafts.filter((one) => [...one.rows.values()].some((row) => derived.refused.has(row))));
      const kept = drafts.filter((one) => !refused.has(one));
      const own = kept.flatMap((one) => [...one.rows.values()]);
      if (refused.size > 0 && own.length === 0) return { rows: [], answer: [], refused };
      // What was refused must not count as a step of a subscription: without it, everything is derived once more.
      const final = refused.size > 0 ? await derive(tx, own, { mint, now }) : derived;
      const all = [...own, ...final.rows];
      const answer = await writeRows(tx, all, { claims: claimsOf(kept), terms: final.terms, now });
      final.check(answer);
      return { rows: all, answer, refused };
    });
  };

  const settle = async (ready: readonly Ready[], now: Date, results: Map<Request, Settled>): Promise<void> => {
    const drafts = await draft(ready, now);
    const { rows, answer, refused } = await write(drafts, now);
    const before = await findEvents(
      sql,
      ready.flatMap(({ repeated }) => [...repeated.values()]),
    );
    const versions = new Map(answer.map((row) => [row.eventId, row]));
    for (const one of drafts) {
      const events = one.request.events.flatMap(({ type, resourceId, action }, index): PublishedEvent[] => {
        const repeated = before.get(one.repeated.get(index) ?? 0);
        if (repeated !== undefined) return [repeated];
        const id = one.rows.get(index)?.eventId ?? 0;
        const found = versions.get(id);
        if (found === undefined) return [];
        return [{ id, type, resourceId, action, version: found.version, timeZone: found.timeZone, dateCreated: now }];
      });
      if (refused.has(one)) results.set(one.request, derivedElsewhere(one.request));
      else results.set(one.request, events.length < one.request.events.length ? notFound('store') : events);
    }
    onCommitted(toCommitted(rows, answer, baseUrl));
  };

  return async (requests: readonly Request[]): Promise<Settled[]> => {
    const now = requests[0]?.now ?? new Date(0);
    const results = new Map<Request, Settled>();
    let waiting = requests;
    for (let tries = 1; waiting.length > 0; waiting = waiting.filter((request) => !results.has(request))) {
      try {
        const { ready, refused } = await recall(sql, waiting, now);
        for (const { request, problem } of refused) results.set(request, problem);
        await settle(ready, now, results);
      } catch (error) {
        if (isUnavailable(error)) onUnknown(error);
        if (!isOvertaken(error) || tries >= TRIES_MAX) throw error;
        tries += 1;
      }
    }
    return requests.map((request) => results.get(request) ?? notFound('store'));
  };
};
