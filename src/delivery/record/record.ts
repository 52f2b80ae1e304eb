/** What became of deliveries, written down in batches; nothing is dropped while the shard is ours. */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher } from '#database/batch.ts';
import { isUnavailable, type Sql } from '#database/pool.ts';
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import type { Pending } from '../lanes/lane.ts';
import { labelOf, type Outcome } from '../exchange/outcome.ts';
import type { Health } from '../policy/policy.ts';
import { recordBatch, type RecordColumns, type StateColumns } from './queries.ts';

export type Entry = {
  shard: number;
  delivery: Pending;
  /** Null where the delivery ends without an attempt: its webhook was switched off. */
  attempt: { startedAt: Date; durationMs: number; outcome: Outcome } | null;
  /** Attempts charged so far, this one included. */
  attempts: number;
  next: { state: 'successful' | 'failed' } | { dueAt: Date };
  /** The webhook's state after this one; null where it did not change. */
  webhook: (Health & { pausedUntil: Date | null }) | null;
};

export type Recorder = {
  /** Resolves with true once committed, with false when the shard was lost and nothing was written. */
  record: (entry: Entry) => Promise<boolean>;
  unrecorded: () => number;
};

const toColumns = (entries: readonly Entry[], now: Date): RecordColumns => {
  const replies = entries.map(({ attempt }) => attempt?.outcome.reply ?? null);
  return {
    shard: entries.map(({ shard }) => shard),
    deliveryId: entries.map(({ delivery }) => delivery.id),
    storeId: entries.map(({ delivery }) => delivery.storeId),
    webhookId: entries.map(({ delivery }) => delivery.webhookId),
    eventId: entries.map(({ delivery }) => delivery.eventId),
    // A fault of our own is not charged, so it takes no number and leaves no row: the next attempt has this one's.
    n: entries.map(({ attempt, attempts }) => (attempt === null || attempt.outcome.kind === 'ours' ? 0 : attempts)),
    startedAt: entries.map(({ attempt }) => attempt?.startedAt ?? now),
    durationMs: entries.map(({ attempt }) => Math.round(attempt?.durationMs ?? 0)),
    outcome: entries.map(({ attempt }) => (attempt === null ? '' : labelOf(attempt.outcome))),
    responseCode: replies.map((reply) => reply?.code ?? null),
    responseHeaders: replies.map((reply) => reply?.headers ?? null),
    responseBody: replies.map((reply) => reply?.body ?? null),
    state: entries.map(({ next }) => ('state' in next ? next.state : null)),
    attempts: entries.map(({ attempts }) => attempts),
    dueAt: entries.map(({ next }) => ('state' in next ? now : next.dueAt)),
  };
};

const toStates = (entries: readonly Entry[]): StateColumns => {
  const newest = new Map<number, { shard: number; delivery: Pending; state: NonNullable<Entry['webhook']> }>();
  for (const { shard, delivery, webhook } of entries) {
    if (webhook !== null) newest.set(delivery.webhookId, { shard, delivery, state: webhook });
  }
  const rows = [...newest.values()];
  return {
    shard: rows.map(({ shard }) => shard),
    webhookId: rows.map(({ delivery }) => delivery.webhookId),
    epoch: rows.map(({ delivery }) => delivery.epoch),
    consecutiveFailures: rows.map(({ state }) => state.consecutiveFailures),
    firstFailureAt: rows.map(({ state }) => state.firstFailureAt),
    pausedUntil: rows.map(({ state }) => state.pausedUntil),
  };
};

const RETRY_MS = 250;
/** An outcome that PostgreSQL refuses is tried ever more rarely, and in the log each time. */
const POISON_RETRY_MAX_MS = 30_000;
const BATCH_ROWS = 500;
const BATCH_BYTES = 8 * 1024 * 1024;

export const createRecorder = (deps: {
  sql: Sql;
  clock: Clock;
  log: Log;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  onLost: (shard: number) => void;
}): Recorder => {
  let unrecorded = 0;

  const write = async (entries: readonly Entry[]): Promise<boolean[]> => {
    const shards = [...new Set(entries.map(({ shard }) => shard))].toSorted((a, b) => a - b);
    const fences = shards.flatMap((shard) => {
      const fence = deps.fenceOf(shard);
      return fence === undefined ? [] : [{ shard, fence }];
    });
    if (fences.length === 0) return entries.map(() => false);
    const columns = { shard: fences.map(({ shard }) => shard), fence: fences.map(({ fence }) => fence) };
    const now = deps.clock.now();
    const held = new Set(
      await recordBatch(deps.sql, deps.workerId, columns, toColumns(entries, now), toStates(entries), now),
    );
    for (const { shard } of fences) if (!held.has(shard)) deps.onLost(shard);
    return entries.map(({ shard }) => held.has(shard));
  };

  /**
   * A database that is away, or a COMMIT whose result is unknown: the same batch again, before any later one, so that
   * the states of a webhook are written in their order. Recording again changes nothing twice.
   */
  const run = async (entries: readonly Entry[]): Promise<boolean[]> => {
    for (;;) {
      try {
        return await write(entries);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        await wait(RETRY_MS);
      }
    }
  };

  const batcher = createBatcher<Entry, boolean>({
    maxRows: BATCH_ROWS,
    maxBytes: BATCH_BYTES,
    sizeOf: ({ attempt }) => ({ rows: 1, bytes: 200 + (attempt?.outcome.reply?.body.length ?? 0) }),
    run,
  });

  const untilRecorded = async (entry: Entry): Promise<boolean> => {
    for (let tries = 0; deps.fenceOf(entry.shard) !== undefined; tries += 1) {
      try {
        return await batcher.submit(entry);
      } catch (error) {
        deps.log.error({ err: error, delivery: entry.delivery.id }, 'an outcome could not be recorded');
        await wait(Math.min(RETRY_MS * 2 ** tries, POISON_RETRY_MAX_MS));
      }
    }
    return false;
  };

  return {
    unrecorded: () => unrecorded,
    record: async (entry) => {
      unrecorded += 1;
      try {
        return await untilRecorded(entry);
      } finally {
        unrecorded -= 1;
      }
    },
  };
};
