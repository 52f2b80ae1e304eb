/** Records results of deliveries in batches; drops nothing while the shard is owned. */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher } from '#db/batch.ts';
import { isRefused } from '#db/unavailable.ts';
import { SHARDS } from '#core/ids.ts';
import { bytesOf, deadLetter, type Entry } from './entry.ts';
import { RETRY_DELAYS_MS, UNAVAILABLE_RETRY_MS, Writer, type WriterDeps } from './writer.ts';

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

/**
 * Writes an entry that was rejected, with less content in each try, so that it blocks neither its lane nor a stop.
 * Immediately and not in a later batch: its webhook state must not overwrite a newer one, and the lane waits for it if
 * the webhook has to be disabled.
 */
const writeReduced = async (
  writer: Writer,
  { clock, log }: WriterDeps,
  entry: Entry,
  why: unknown,
): Promise<boolean> => {
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
  throw failure;
};

type PendingEntry = { entry: Entry; tries: number; onRecorded: (isWritten: boolean) => void };

export const createRecorder = (deps: WriterDeps): Recorder => {
  const { log } = deps;
  const writer = new Writer(deps);
  let unrecorded = 0;
  const byShard = new Uint32Array(SHARDS);

  const report = (batch: readonly PendingEntry[], written: readonly boolean[]): void => {
    unrecorded -= batch.length;
    for (const { entry } of batch) byShard[entry.shard] = (byShard[entry.shard] ?? 0) - 1;
    for (const [index, { onRecorded }] of batch.entries()) onRecorded(written[index] === true);
  };

  /** Returns undefined if no variant can be written yet. */
  const writeOne = async ({ entry, tries }: PendingEntry, refusal: unknown): Promise<boolean | undefined> => {
    try {
      return await writeReduced(writer, deps, entry, refusal);
    } catch (error) {
      const about = { err: error, delivery: entry.delivery.id };
      if (tries === 0) log.error(about, 'recording a result failed in every form; retrying');
      return undefined;
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
      const isWritten = await writeOne(single, error);
      if (isWritten === undefined) return void retryLater(single);
      written = [isWritten];
    }
    // Outside of this function: an error of a callback must not make the batch be written again.
    queueMicrotask(() => report(batch, written));
  };

  /** In order of arrival. A rejected batch is split in halves, down to one entry. */
  const batches = createBatcher<PendingEntry, void>({
    maxRows: BATCH_ROWS,
    maxBytes: BATCH_BYTES,
    sizeOf: ({ entry }) => ({ rows: 1, bytes: bytesOf(entry) }),
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
      unrecorded += 1;
      byShard[entry.shard] = (byShard[entry.shard] ?? 0) + 1;
      submit({ entry, tries: 0, onRecorded });
    },
  };
};
