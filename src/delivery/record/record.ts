/** Records results of deliveries in batches; drops nothing while the shard is owned. */
import { setTimeout as wait } from 'node:timers/promises';
import { isRefused, isUnavailable } from '#db/unavailable.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { createBatcher } from '#db/batch.ts';
import { SHARDS } from '#core/ids.ts';
import { type Entry, bytesOf, deadLetter } from '../policy/entry.ts';
import type { OwnerTokens, Ownership } from '../leases/ownership.ts';
import type { Quarantine } from '../quarantine.ts';
import { toStates, recordBatch, recordWithoutHistory, releaseNext } from './record-sql.ts';

type RecorderRuntime = Pick<Runtime, 'sql' | 'clock' | 'log'>;

/** The parts that a recorder reads: fencing tokens, markers of deliveries, and whether deliveries wait for the end of another. */
type RecorderParts = {
  ownership: OwnerTokens & Pick<Ownership, 'lastFenceOf'>;
  quarantine: Pick<Quarantine, 'markers'>;
  lanes: { isOrdered: (shard: number, webhookId: number) => boolean };
};

const UNAVAILABLE_RETRY_MS = 250;

/**
 * Delays before retries of a single entry that failed without being rejected, such as by a deadlock or a cancelled
 * statement. Limited to five tries: all other results wait meanwhile, and an unreadable page never becomes readable.
 */
const RETRY_DELAYS_MS: readonly number[] = [50, 100, 200, 400];

/** Returns the token under which the entry's delivery was dequeued; throws if there is none. */
function requireFence({ shard, fence }: Entry): number {
  if (fence === undefined) throw new Error(`A delivery of shard ${shard} is recorded without a fence`);
  return fence;
}

/** Writes entries under the fencing tokens of their shards. */
class Writer {
  readonly #runtime: RecorderRuntime;
  readonly #parts: RecorderParts;

  constructor(runtime: RecorderRuntime, parts: RecorderParts) {
    this.#runtime = runtime;
    this.#parts = parts;
  }

  /**
   * Returns for each entry whether it is committed: false if its shard was lost since the delivery was dequeued, even
   * if it is owned again. `retryDelaysMs`: delays before further tries after a failure that is not a rejection.
   */
  write(
    entries: readonly Entry[],
    { keepResponses, retryDelaysMs = [] }: { keepResponses: boolean; retryDelaysMs?: readonly number[] },
  ): Promise<boolean[]> {
    return this.#retryUntilAvailable(() => this.#write(entries, keepResponses), retryDelaysMs);
  }

  /** Records the result of the delivery without history, and with `keepState` the state of its webhook. */
  writeWithoutHistory(entry: Entry, keepState: boolean): Promise<boolean> {
    return this.#retryUntilAvailable(() => this.#writeWithoutHistory(entry, keepState), []);
  }

  /**
   * Returns whether the shard may still be owned under the entry's token: after a lapse of the lease the record
   * statement decides.
   */
  mayOwnShard({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#parts.ownership.lastFenceOf(shard) === fence;
  }

  /** Returns whether the shard is owned under the entry's token. */
  ownsShard({ shard, fence }: Entry): boolean {
    return fence !== undefined && this.#parts.ownership.fenceOf(shard) === fence;
  }

  /**
   * Repeats the write while the database is unavailable or the result of a COMMIT is unknown, before any later write,
   * so that states of a webhook are written in order. Recording is idempotent.
   */
  async #retryUntilAvailable<T>(attempt: () => Promise<T>, retryDelaysMs: readonly number[]): Promise<T> {
    let tries = 0;
    for (;;) {
      let waitMs: number | undefined = UNAVAILABLE_RETRY_MS;
      try {
        return await attempt();
      } catch (error) {
        if (!isUnavailable(error)) {
          waitMs = retryDelaysMs[tries];
          if (isRefused(error) || waitMs === undefined) throw error;
          if (tries === 0) this.#runtime.log.warn({ err: error }, 'recording results failed; retrying');
          tries += 1;
        }
      }
      await wait(waitMs);
    }
  }

  async #write(entries: readonly Entry[], keepResponses: boolean): Promise<boolean[]> {
    const { sql, clock } = this.#runtime;
    const { ownership, quarantine, lanes } = this.#parts;
    const { workerId } = ownership;
    const candidates = entries.filter((entry) => this.mayOwnShard(entry));
    if (candidates.length === 0) return entries.map(() => false);
    const byShard = new Map(candidates.map((entry) => [entry.shard, requireFence(entry)]));
    const fences = [...byShard].map(([shard, fence]) => ({ shard, fence })).toSorted((a, b) => a.shard - b.shard);
    const now = clock.now();
    // Markers of a shard that was lost are not in memory any more, so all its entries delete theirs.
    const marked = candidates.filter(
      (entry) => !this.ownsShard(entry) || quarantine.markers.get(entry.shard)?.has(entry.delivery.id) === true,
    );
    const owned = new Set(await recordBatch(sql, workerId, fences, candidates, { keepResponses, marked, now }));
    for (const { shard, fence } of fences) if (!owned.has(shard)) ownership.lost(shard, fence);
    const written = new Set(candidates.filter(({ shard }) => owned.has(shard)));
    const inOrder = [...written].filter(
      ({ shard, delivery, next }) => 'state' in next && lanes.isOrdered(shard, delivery.webhookId),
    );
    if (inOrder.length > 0) await releaseNext(sql, inOrder, now);
    return entries.map((entry) => written.has(entry));
  }

  async #writeWithoutHistory(entry: Entry, keepState: boolean): Promise<boolean> {
    const { sql, clock } = this.#runtime;
    const { ownership } = this.#parts;
    const { shard, fence, delivery, attempts, faults, next } = entry;
    if (fence === undefined || !this.mayOwnShard(entry)) return false;
    const hasEnded = 'state' in next;
    const dueAt = hasEnded ? clock.now() : next.dueAt;
    const row = { id: delivery.id, hasEnded, before: delivery.attempts, attempts, faults, dueAt };
    const states = toStates(keepState ? [entry] : []);
    const isOwned = await recordWithoutHistory(sql, ownership.workerId, { shard, fence }, row, states);
    if (!isOwned) ownership.lost(shard, fence);
    return isOwned;
  }
}

export type Recorder = {
  /** Records an entry and calls back: true once committed, false if the shard was lost and nothing was written. */
  record: (entry: Entry, onRecorded: (isWritten: boolean) => void) => void;
  unrecorded: () => number;
  /** Returns whether a result of the shard is not recorded yet. */
  isRecording: (shard: number) => boolean;
};

/** Longest delay between retries of an entry that the database rejects in every form. */
const REFUSED_RETRY_MAX_MS = 30_000;
const BATCH_ROWS = 500;
const BATCH_BYTES = 8 * 1024 * 1024;
/** A statement costs PostgreSQL 333 µs and 31 µs for each row, so results wait for others. */
const GATHER_MS = 10;

type PendingEntry = { entry: Entry; tries: number; startedMs: number; onRecorded: (isWritten: boolean) => void };

/**
 * Writes an entry that was rejected, with less content in each try, so that it blocks neither its lane nor a stop.
 * Immediately and not in a later batch: its webhook state must not overwrite a newer one, and the lane waits for it if
 * the webhook has to be disabled. Returns undefined if no variant can be written yet.
 */
async function writeReduced(
  writer: Writer,
  { clock, log }: RecorderRuntime,
  { entry, tries }: PendingEntry,
  why: unknown,
): Promise<boolean | undefined> {
  const { shard, delivery, webhook } = entry;
  const write = async (reduced: Entry) => (await writer.write([reduced], { keepResponses: false }))[0] === true;
  const deadLettered = { ...deadLetter(entry, delivery, 'refused by the database', clock.now()), webhook };
  const variants: [message: string, write: () => Promise<boolean>][] = [
    // Without the response first: it is the only part of an entry with foreign data.
    ['recording a result failed; written without its response', () => write(entry)],
    ['recording a result failed; delivery dead-lettered', () => write(deadLettered)],
    ['recording a result failed; written without its attempt', () => write({ ...entry, attempt: null })],
    ['recording a result failed; written without history', () => writer.writeWithoutHistory(entry, true)],
    [
      'recording a result failed; written without history and webhook state',
      () => writer.writeWithoutHistory(entry, false),
    ],
  ];
  // An error other than a rejection says nothing about the entry's content, so it does not dead-letter the delivery.
  if (!isRefused(why)) variants.splice(1, 1);
  let failure = why;
  for (const [message, attempt] of variants) {
    try {
      const isWritten = await attempt();
      if (isWritten) log.error({ err: why, delivery: delivery.id, webhook: delivery.webhookId, shard }, message);
      return isWritten;
    } catch (error) {
      // The next variant contains less.
      failure = error;
    }
  }
  if (tries === 0)
    log.error({ err: failure, delivery: delivery.id }, 'recording a result failed in every form; retrying');
  return undefined;
}

/** `isWritten`: committed. Otherwise the shard was lost: the next owner repeats the attempt, and counts and reports it. */
export type RecordResult = { isWritten: boolean; durationMs: number };

/** A consumer must not throw: the entry would not be recorded, or stay in its lane. */
export type OutcomeConsumer = {
  /** Takes an entry before it is recorded. */
  completed?: (entry: Entry) => void;
  /** Takes it afterwards, before the callback of the entry. */
  recorded: (entry: Entry, result: RecordResult) => void;
};

/** `consumers` get each entry once. */
export function createRecorder(
  runtime: RecorderRuntime,
  parts: RecorderParts,
  consumers: readonly OutcomeConsumer[] = [],
): Recorder {
  const { clock } = runtime;
  const writer = new Writer(runtime, parts);
  const { lanes } = parts;
  /** Returns whether another delivery waits for the record, or the end of the webhook's deliveries. */
  const isAwaited = ({ shard, delivery, webhook }: Entry): boolean =>
    webhook?.isPendingDisable === true || lanes.isOrdered(shard, delivery.webhookId);
  let unrecorded = 0;
  const byShard = new Uint32Array(SHARDS);

  const report = (batch: readonly PendingEntry[], written: readonly boolean[]): void => {
    unrecorded -= batch.length;
    for (const { entry } of batch) byShard[entry.shard] = (byShard[entry.shard] ?? 0) - 1;
    for (const [index, { entry, startedMs, onRecorded }] of batch.entries()) {
      const isWritten = written[index] === true;
      const result = { isWritten, durationMs: clock.monotonicMs() - startedMs };
      for (const consumer of consumers) consumer.recorded(entry, result);
      onRecorded(isWritten);
    }
  };

  const write = async (batch: readonly PendingEntry[]): Promise<void> => {
    let written: readonly boolean[];
    const single = batch.length === 1 ? batch[0] : undefined;
    // A half of the batch may be fast enough. A single entry is retried first, or a deadlock would lose its history.
    const retryDelaysMs = single?.tries === 0 ? RETRY_DELAYS_MS : [];
    try {
      written = await writer.write(
        batch.map(({ entry }) => entry),
        { keepResponses: true, retryDelaysMs },
      );
    } catch (error) {
      if (single === undefined) throw error;
      const isWritten = await writeReduced(writer, runtime, single, error);
      if (isWritten === undefined) return void retryLater(single);
      written = [isWritten];
    }
    // Outside of this function: an error of a callback must not make the batch be written again.
    queueMicrotask(() => report(batch, written));
  };

  /** In order of arrival. A rejected batch is split in halves, down to one entry. */
  const batches = createBatcher<PendingEntry, void>({
    maxRows: BATCH_ROWS,
    bytes: { max: BATCH_BYTES, of: ({ entry }) => bytesOf(entry) },
    gather: { maxMs: GATHER_MS, isUrgent: ({ entry }) => isAwaited(entry) },
    run: async (batch) => {
      await write(batch);
      return batch.map(() => {});
    },
  });

  const submit = (pending: PendingEntry): void => {
    // An entry that cannot be written in any form must not prevent that the shard is taken again.
    if (pending.tries === 0 ? writer.mayOwnShard(pending.entry) : writer.ownsShard(pending.entry)) batches.add(pending);
    else queueMicrotask(() => report([pending], [false]));
  };

  const retryLater = async (pending: PendingEntry): Promise<void> => {
    await wait(Math.min(UNAVAILABLE_RETRY_MS * 2 ** pending.tries, REFUSED_RETRY_MAX_MS));
    submit({ ...pending, tries: pending.tries + 1 });
  };

  return {
    unrecorded: () => unrecorded,
    isRecording: (shard) => byShard[shard] !== 0,
    record: (entry, onRecorded) => {
      for (const consumer of consumers) consumer.completed?.(entry);
      unrecorded += 1;
      byShard[entry.shard] = (byShard[entry.shard] ?? 0) + 1;
      submit({ entry, tries: 0, startedMs: clock.monotonicMs(), onRecorded });
    },
  };
}
