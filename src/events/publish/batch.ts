/** One batch of publish requests: what came before is answered again, what is new is written in one statement. */
import { hurry, transaction, type Queryable, type Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { dayOf } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import { recall, staleAt, type Ready } from './recall.ts';
import type { PublishMetrics } from '../metrics.ts';
import type { PublishedEvent, Request } from './publish.ts';
import { findEvents } from '../events-sql.ts';
import { derive, derivedElsewhere, isAboutSubscriptions, storesThatDerive } from './derive.ts';
import { inLockOrder, toColumns, type Row, type Since } from './columns.ts';
import { answerOf, claimsOf, shardsOfNew, toDrafts, type Draft } from './draft.ts';
import type { IdAllocator } from './id-allocator.ts';
import { dependOnPreviousVersions, Overtaken, readPreviousVersions } from './previous-version.ts';
import { LOCK_MS, publishBatch, type ClaimColumns, type Published, type TermColumns } from './batch-sql.ts';
import { toCommitted, type Committed } from './rows.ts';

export type BatchDeps = {
  sql: Sql;
  allocateIds: IdAllocator;
  baseUrl: string;
  metrics: PublishMetrics;
  /** Told of every delivery after its commit, in the process that committed it. */
  onCommitted: (deliveries: readonly Committed[]) => void;
  /** A batch may have been committed without anybody having been told of its deliveries. */
  onUnknown: (error: unknown) => void;
};

/** Each time somebody else was faster with a key, a new resource or an erasure, which is then there to be found. */
const TRIES_MAX = 10;

/** A key that was taken or a resource that was erased, and a circle of locks, of which PostgreSQL undoes one. */
const UNDONE: ReadonlySet<unknown> = new Set(['HL001', '40P01']);

/** Nothing was written, and the same once more may well be. */
const isOvertaken = (error: unknown): boolean =>
  error instanceof Overtaken || (error instanceof Error && UNDONE.has((error as { code?: unknown }).code));

const CONTENDED = 'Somebody else publishes or erases the same at this moment: send it again in a second';
const contended = (cause: unknown): Problem =>
  new Problem(503, { code: 'busy', message: CONTENDED }, { headers: { 'Retry-After': '1' }, cause });

/** A problem is the sender's; any other error says that nobody knows what became of it. */
type Settled = PublishedEvent[] | Error;
/** All rows that were written, those that follow from others among them; what was refused is in none of them. */
type Written = { rows: readonly Row[]; answer: readonly Published[]; refused: ReadonlySet<Draft> };

const rowsOf = (drafts: readonly Draft[]): Row[] => drafts.flatMap(({ rows }) => [...rows.values()]);

const createWrite = ({ sql, allocateIds, baseUrl }: BatchDeps) => {
  const writeRows = async (
    on: Queryable,
    rows: readonly Row[],
    { since, ...also }: { claims: ClaimColumns | null; terms: TermColumns | null; now: Date; since?: Since },
  ): Promise<Published[]> => {
    const { now } = also;
    const columns = toColumns(rows.toSorted(inLockOrder), now, since);
    return publishBatch(on, { ...also, columns, staleAt: staleAt(now), day: dayOf(now), baseUrl });
  };

  /** The versions before are locked first, what follows from them is written with them. */
  const writeAfter = (drafts: readonly Draft[], now: Date): Promise<Written> =>
    transaction(sql, async (tx) => {
      await hurry(tx, LOCK_MS);
      const deriving = await storesThatDerive(tx, rowsOf(drafts));
      const isRefused = ({ event, storeId }: Row) => event.type === 'subscription_event' && deriving.has(storeId);
      const refused = new Set(drafts.filter((one) => rowsOf([one]).some(isRefused)));
      const kept = drafts.filter((one) => !refused.has(one));
      const own = rowsOf(kept);
      if (own.length === 0) return { rows: [], answer: [], refused };
      const previousVersions = await readPreviousVersions(tx, own);
      const derived = await derive(tx, own, { allocateIds, now, previousVersions, deriving });
      const rows = [...own, ...derived.rows];
      const { since } = previousVersions;
      const answer = await writeRows(tx, rows, { claims: claimsOf(kept), terms: derived.terms, now, since });
      previousVersions.check(answer);
      return { rows, answer, refused };
    });

  return async (drafts: readonly Draft[], now: Date): Promise<Written> => {
    const rows = rowsOf(drafts);
    if (rows.some(isAboutSubscriptions) || dependOnPreviousVersions(rows)) return writeAfter(drafts, now);
    const also = { claims: claimsOf(drafts), terms: null, now };
    return { rows, answer: rows.length === 0 ? [] : await writeRows(sql, rows, also), refused: new Set() };
  };
};

/**
 * Answers each request of a batch. When it throws, nothing was committed or nobody knows: whatever may fail stands before
 * the write, because a batch that fails is tried again.
 */
export const createBatchWriter = (deps: BatchDeps) => {
  const { sql, allocateIds, baseUrl, metrics, onCommitted, onUnknown } = deps;
  const write = createWrite(deps);

  const settle = async (ready: readonly Ready[], now: Date, results: Map<Request, Settled>): Promise<void> => {
    const repeated = ready.flatMap((one) => [...one.repeated.values()]);
    const before = await findEvents(sql, repeated);
    const drafts = toDrafts(ready, await allocateIds(sql, { day: dayOf(now), shards: shardsOfNew(ready) }), now);
    const { rows, answer, refused } = await write(drafts, now);
    const written = new Map(answer.map((row) => [row.eventId, row]));
    for (const one of drafts) {
      const settled = refused.has(one) ? derivedElsewhere(one.request) : answerOf(one, { before, written, now });
      results.set(one.request, settled);
    }
    try {
      const deliveries = toCommitted(rows, answer, { baseUrl, now });
      metrics.written({ events: written.size, deliveries: deliveries.length });
      onCommitted(deliveries);
    } catch (error) {
      onUnknown(error);
    }
  };

  return async (requests: readonly Request[]): Promise<Settled[]> => {
    // The time of the last: nothing in a batch is from before it was asked for, and so from before an erasure that it followed.
    const now = requests.at(-1)?.now ?? new Date(0);
    const results = new Map<Request, Settled>();
    let waiting = requests;
    let hasCommitted = false;
    for (let tries = 1; waiting.length > 0; waiting = waiting.filter((request) => !results.has(request))) {
      try {
        const { ready, refused } = await recall(sql, waiting, now);
        for (const { request, problem } of refused) results.set(request, problem);
        await settle(ready, now, results);
        hasCommitted = true;
      } catch (error) {
        if (isUnavailable(error)) onUnknown(error);
        if (isOvertaken(error) && tries < TRIES_MAX) {
          tries += 1;
          continue;
        }
        const reason = isOvertaken(error) ? contended(error) : error;
        if (!hasCommitted) throw reason;
        // Those that stand must not be written again with those that wait for them.
        for (const request of waiting) if (!results.has(request)) results.set(request, reason as Error);
      }
    }
    return requests.map((request) => results.get(request) ?? notFound('store'));
  };
};
