/**
 * Writes one batch of publish requests: repeated idempotency keys return the first result, new events are written in one statement. The
 * stored versions that the result depends on are read and locked first.
 */
import type { IdAllocator } from '#db/partitions.ts';
import { type Queryable, limitWaits, transaction, type Sql } from '#db/pool.ts';
import { hadNoConnection, isDiskFull, isUnavailable } from '#db/unavailable.ts';
import { dayOf } from '#core/ids.ts';
import { notFound, type Problem, temporary } from '#core/problem.ts';
import { lookUpKeys, type Ready } from './key.ts';
import type { PublishMetrics, PublishedEvent, PublishRequest } from './publish.ts';
import { findEvents } from '../events-sql.ts';
import { derive, stepsDerivedProblem, storesThatDerive } from './derive.ts';
import {
  isAboutSubscriptions,
  resultOf,
  claimsOf,
  shardsOfNew,
  toDrafts,
  type Draft,
  toCommitted,
  type Committed,
  inLockOrder,
  toBatchRows,
  type Row,
  type NewestDateOf,
  byResource,
  decisiveDate,
  dependsOnStored,
  markStale,
  type BatchRow,
} from './rows.ts';
import {
  lockPreviousVersions,
  LOCK_MS,
  publishBatch,
  type Batch,
  type Published,
  filtersOfStores,
  type FilterColumns,
} from './publish-sql.ts';
import { setImmediate as pause } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';
import { compileFilter, payloadOf, type PayloadFilter } from '#catalog/payload-filter.ts';

// Filters of webhooks. Each process keeps the filters that it knows, compiled, and passes their results to the statement that makes the
// deliveries. The statement fails with SQLSTATE HL002 if a webhook has another filter, which is then read: a change takes effect at once
// in all processes, and stores without filters cost nothing.

/** Filters that a process keeps, each of up to 1,000 characters. */
const FILTERS_MAX = 20_000;

/** A filter of one or several webhooks of a store. `type`: the resource of their events. */
type KnownFilter = { id: string; type: string; passes: PayloadFilter };

/** Returns the filters of a store. */
type FiltersOf = (storeId: number) => readonly KnownFilter[] | undefined;

/** Compiled filters by their text: internal events read those of their store each time. */
const compiled = new LRUCache<string, PayloadFilter>({ ...entriesUpTo(FILTERS_MAX), memoMethod: compileFilter });

/** Reads the filters of all active webhooks of the stores. */
export async function readFilters(
  sql: Queryable,
  storeIds: readonly number[],
): Promise<ReadonlyMap<number, readonly KnownFilter[]>> {
  const rows = await filtersOfStores(sql, storeIds);
  const known = rows.map(({ storeId, id, type, filter }) => ({ storeId, id, type, passes: compiled.memo(filter) }));
  return Map.groupBy(known, ({ storeId }) => storeId);
}

/** Creates the filters that a process knows. */
function createFilters() {
  const known = new LRUCache<number, readonly KnownFilter[]>({
    maxSize: FILTERS_MAX,
    sizeCalculation: ({ length }) => length,
  });
  return {
    of: ((storeId) => known.get(storeId)) satisfies FiltersOf,
    /** Replaces the known filters of the stores by those in the database. */
    read: async (sql: Queryable, storeIds: readonly number[]): Promise<void> => {
      const filters = await readFilters(sql, storeIds);
      for (const storeId of storeIds) {
        const ofStore = filters.get(storeId);
        if (ofStore === undefined) known.delete(storeId);
        else known.set(storeId, ofStore);
      }
    },
  };
}

const literalOf = (ids: readonly string[]): string => `{${ids.join(',')}}`;

/** A store with many filters of long patterns takes up to half a second for an event of long texts; others are served meanwhile. */
const PAUSED_AFTER_MS = 10;

/** Evaluates the filters of each event's store. Events of stores without known filters are not parsed. */
export async function evaluateFilters(rows: readonly BatchRow[], filtersOf: FiltersOf): Promise<FilterColumns> {
  let since = performance.now();
  const known: FilterColumns['known'] = [];
  const passed: FilterColumns['passed'] = [];
  for (const [at, { row, modifiedAt }] of rows.entries()) {
    const { type, resourceId, body, kind } = row.event;
    const filters = filtersOf(row.storeId)?.filter((one) => one.type === type) ?? [];
    if (filters.length === 0) continue;
    const payload = payloadOf({ resourceId, modifiedAt, body });
    while (known.length < at) known.push(null);
    while (passed.length < at) passed.push(null);
    known.push(literalOf(filters.map(({ id }) => id)));
    const ids: string[] = [];
    // What has only an id passes every filter: a receiver of the resource must not miss that it is deleted.
    const isBare = kind === 'deletion' || kind === 'notice';
    for (const { id, passes } of filters) {
      if (isBare || passes(payload)) ids.push(id);
      if (performance.now() - since < PAUSED_AFTER_MS) continue;
      await pause();
      since = performance.now();
    }
    passed.push(literalOf(ids));
  }
  return { known, passed };
}

/** Returns whether a statement failed because a webhook has a filter that was not evaluated. */
function isUnknownFilter(error: unknown): boolean {
  return error instanceof Error && (error as { code?: unknown }).code === 'HL002';
}

const CHANGING = 'The filter of a webhook of this store is being changed by another request: retry in a second';

/** Maps the failure of a statement in a transaction that cannot be repeated to a 503. */
export function busyIfUnknownFilter(error: unknown): never {
  if (!isUnknownFilter(error)) throw error;
  throw temporary(503, { code: 'busy', message: CHANGING }, 1, { cause: error });
}

// The stored versions that a batch depends on, and its statement.

export type BatchDeps = {
  sql: Sql;
  allocateIds: IdAllocator;
  baseUrl: string;
  metrics: PublishMetrics;
  /** Called with the deliveries after their commit, in the process that committed them. */
  onCommitted: (deliveries: readonly Committed[]) => void;
  /** Called when a batch may have been committed but its deliveries are not known. */
  onUnknown: (error: unknown) => void;
};

/** Another process published or erased a resource between the read and the write of this batch. */
class ConcurrentPublish extends Error {
  override readonly name = 'Overtaken';
}

export type PreviousVersions = {
  /** Returns the body of the stored version; undefined if the resource does not exist or is deleted. */
  bodyOf: (row: Row) => string | undefined;
  newestDateOf: NewestDateOf;
  /** Throws `ConcurrentPublish` if a resource had a version, or an erasure, that was not read before the write. */
  check: (returned: readonly Published[]) => void;
};

const dependent = (rows: readonly Row[]): Row[][] =>
  byResource(rows.toSorted(inLockOrder)).filter(
    (group) => group[0]?.event.type === 'subscription' || dependsOnStored(group),
  );

/** Returns whether resources other than subscriptions depend on stored versions: those with dated and undated events. */
function dependOnPreviousVersions(rows: readonly Row[]): boolean {
  const dates = rows.map(({ event }) => decisiveDate(event));
  const isMixed = dates.includes(null) && dates.some((date) => date !== null);
  return isMixed && dependent(rows).length > 0;
}

const keyOf = (storeId: number, type: string, id: string): string => `${storeId} ${type} ${id}`;

/** Locks the versions that the rows depend on until the transaction ends. */
async function readPreviousVersions(tx: Queryable, rows: readonly Row[]): Promise<PreviousVersions> {
  const groups = dependent(rows);
  const firsts = groups.flatMap(([row]) => row ?? []);
  const keys = firsts.map(({ storeId, event }) => ({ storeId, type: event.type, id: event.resourceId }));
  const found = await lockPreviousVersions(tx, keys);
  const previousVersions = new Map(
    found.map((previous) => [keyOf(previous.storeId, previous.type, previous.id), previous]),
  );
  const of = ({ storeId, event }: Row) => previousVersions.get(keyOf(storeId, event.type, event.resourceId));
  const bodyOf = (row: Row) => (of(row)?.isDeleted === true ? undefined : (of(row)?.body ?? undefined));
  const newestDateOf = (row: Row) => of(row)?.newestDate ?? undefined;
  const unseen = new Set(firsts.filter((row) => (of(row)?.body ?? null) === null).map(({ eventId }) => eventId));
  const marked = groups.flatMap((group) => markStale(group, group[0] && newestDateOf(group[0])));
  const current = new Set(marked.filter(({ isStale }) => !isStale).map(({ row }) => row.eventId));
  return {
    bodyOf,
    newestDateOf,
    check: (returned) => {
      if (returned.some(({ eventId, previousId }) => previousId !== null && unseen.has(eventId)))
        throw new ConcurrentPublish('a new resource was published concurrently by another process');
      if (returned.some(({ eventId, version }) => version === 0 && current.has(eventId)))
        throw new ConcurrentPublish('a resource was erased concurrently by another process');
    },
  };
}

/**
 * Attempts after conflicts with a concurrent key, resource or erasure; the next attempt sees what the other transaction wrote.
 */
export const TRIES_MAX = 10;

/**
 * HL001: a key was claimed or a resource erased concurrently. HL002: a webhook has a filter that this process does not know. 40P01:
 * deadlock, which rolls back one transaction.
 */
const CONFLICT_CODES: ReadonlySet<unknown> = new Set(['HL001', 'HL002', '40P01']);

/** Returns whether nothing was written and a retry may succeed. */
export function isConflict(error: unknown): boolean {
  return (
    error instanceof ConcurrentPublish ||
    (error instanceof Error && CONFLICT_CODES.has((error as { code?: unknown }).code))
  );
}

const CONFLICT_MESSAGE = 'The same resource or key is being published or erased by another request: retry in a second';

/** Returns the 503 for a request whose conflicts with others do not end. */
export function conflictProblem(cause: unknown): Problem {
  return temporary(503, { code: 'busy', message: CONFLICT_MESSAGE }, 1, { cause });
}

/** A `Problem` is the fault of the request; after any other error it is unknown whether the request was committed. */
type Result = PublishedEvent[] | Error;
/** `rows`: all written rows, derived ones included; `refused`: drafts of which nothing was written. */
type Written = { rows: readonly Row[]; returned: readonly Published[]; refused: ReadonlySet<Draft> };

const rowsOf = (drafts: readonly Draft[]): Row[] => drafts.flatMap(({ rows }) => [...rows.values()]);

function createWrite({ sql, allocateIds, baseUrl }: BatchDeps, filtersOf: FiltersOf) {
  const writeRows = async (
    on: Queryable,
    all: readonly Row[],
    { newestDateOf, ...options }: Pick<Batch, 'claims' | 'terms' | 'now'> & { newestDateOf?: NewestDateOf },
  ): Promise<Published[]> => {
    const { now } = options;
    const rows = toBatchRows(all.toSorted(inLockOrder), now, newestDateOf);
    const filters = await evaluateFilters(rows, filtersOf);
    return publishBatch(on, { ...options, rows, filters, day: dayOf(now), baseUrl });
  };

  /** Locks the previous versions first and writes derived events in the same transaction. */
  const writeWithPreviousVersions = (drafts: readonly Draft[], now: Date): Promise<Written> =>
    transaction(sql, async (tx) => {
      await limitWaits(tx, LOCK_MS);
      const deriving = await storesThatDerive(tx, rowsOf(drafts));
      const isRefused = ({ event, storeId }: Row) => event.type === 'subscription_event' && deriving.has(storeId);
      const refused = new Set(drafts.filter((one) => rowsOf([one]).some(isRefused)));
      const kept = drafts.filter((one) => !refused.has(one));
      const own = rowsOf(kept);
      if (own.length === 0) return { rows: [], returned: [], refused };
      const previousVersions = await readPreviousVersions(tx, own);
      const derived = await derive(tx, own, { allocateIds, now, previousVersions, deriving });
      const rows = [...own, ...derived.rows];
      const { newestDateOf } = previousVersions;
      const returned = await writeRows(tx, rows, { claims: claimsOf(kept), terms: derived.terms, now, newestDateOf });
      previousVersions.check(returned);
      return { rows, returned, refused };
    });

  return async (drafts: readonly Draft[], now: Date): Promise<Written> => {
    const rows = rowsOf(drafts);
    if (rows.some(isAboutSubscriptions) || dependOnPreviousVersions(rows))
      return writeWithPreviousVersions(drafts, now);
    const options = { claims: claimsOf(drafts), terms: [], now };
    return { rows, returned: rows.length === 0 ? [] : await writeRows(sql, rows, options), refused: new Set() };
  };
}

/**
 * Returns a function that writes a batch and returns one result per request. If it throws, nothing was committed or the outcome
 * is unknown: everything that may fail precedes the write, because a failed batch is retried.
 */
export function createBatchWriter(deps: BatchDeps) {
  const { sql, allocateIds, baseUrl, metrics, onCommitted, onUnknown } = deps;
  const filters = createFilters();
  const write = createWrite(deps, filters.of);

  const writeReady = async (
    ready: readonly Ready[],
    now: Date,
    results: Map<PublishRequest, Result>,
  ): Promise<void> => {
    const repetitions = ready.flatMap(({ request: { storeId }, repeated }) =>
      [...repeated.values()].map((id) => ({ storeId, id })),
    );
    const before = repetitions.length === 0 ? new Map<number, PublishedEvent>() : await findEvents(sql, repetitions);
    const drafts = toDrafts(ready, await allocateIds(sql, { day: dayOf(now), shards: shardsOfNew(ready) }));
    const { rows, returned, refused } = await write(drafts, now);
    const written = new Map(returned.map((row) => [row.eventId, row]));
    for (const one of drafts) {
      const result = refused.has(one) ? stepsDerivedProblem(one.request) : resultOf(one, { before, written, now });
      results.set(one.request, result);
    }
    try {
      const deliveries = toCommitted(rows, returned, { baseUrl, now });
      metrics.written({ events: written.size, deliveries: deliveries.length });
      onCommitted(deliveries);
    } catch (error) {
      onUnknown(error);
    }
  };

  return async (requests: readonly PublishRequest[]): Promise<Result[]> => {
    // The time of the last request: no event of the batch is dated before its request arrived, and so not before an erasure
    // that preceded the request.
    const now = requests.at(-1)?.now ?? new Date(0);
    const results = new Map<PublishRequest, Result>();
    let waiting = requests;
    let hasCommitted = false;
    let missesFilter = false;
    for (let tries = 1; waiting.length > 0; waiting = waiting.filter((request) => !results.has(request))) {
      try {
        if (missesFilter) await filters.read(sql, [...new Set(waiting.map(({ storeId }) => storeId))]);
        const { ready, refused } = await lookUpKeys(sql, waiting, now);
        for (const { request, problem } of refused) results.set(request, problem);
        await writeReady(ready, now, results);
        hasCommitted = true;
      } catch (error) {
        // PostgreSQL rolls back a transaction for which its disk has no space.
        const isKnown = hadNoConnection(error) || isDiskFull(error);
        if (isUnavailable(error) && !isKnown) onUnknown(error);
        missesFilter = isUnknownFilter(error);
        if (isConflict(error) && tries < TRIES_MAX) {
          tries += 1;
          continue;
        }
        const reason = isConflict(error) ? conflictProblem(error) : error;
        if (!hasCommitted) throw reason;
        // Committed requests must not be written again together with those that wait for them.
        for (const request of waiting) if (!results.has(request)) results.set(request, reason as Error);
      }
    }
    return requests.map((request) => results.get(request) ?? notFound('store'));
  };
}
