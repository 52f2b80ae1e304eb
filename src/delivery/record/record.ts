/** What became of deliveries, written down in batches; nothing is dropped while the shard is ours. */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher } from '#db/batch.ts';
import { isRefused } from '#db/unavailable.ts';
import { SHARDS } from '#core/ids.ts';
import { bytesOf, deadLetter, type Entry } from './entry.ts';
import { RETRY_DELAYS_MS, UNAVAILABLE_RETRY_MS, Writer, type WriterDeps } from './writer.ts';

export type Recorder = {
  /** Tells later, with true once committed, with false when the shard was lost and nothing was written. */
  record: (entry: Entry, onRecorded: (isWritten: boolean) => void) => void;
  unrecorded: () => number;
  /** Whether an outcome of the shard is not recorded yet. */
  isRecording: (shard: number) => boolean;
};

/** What cannot be written in any form is tried ever more rarely. */
const REFUSED_RETRY_MAX_MS = 30_000;
const BATCH_ROWS = 500;
const BATCH_BYTES = 8 * 1024 * 1024;

/**
 * One outcome that cannot be written holds up neither its lane nor a stop: it is written with ever reduced in it. At once and
 * not in a later batch, for it carries the state of its webhook, which must not overwrite a newer one and which the lane
 * waits for where it says that the webhook is to be switched off.
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
    // The answer first: it is the one thing in an entry that others have made.
    ['an answer could not be kept', () => write(entry)],
    ['an outcome could not be recorded: put aside', () => write(deadLettered)],
    ['an attempt is left out of the history', () => write({ ...entry, attempt: null })],
    ['a delivery goes on without a record of its attempt', () => writer.writeWithoutHistory(entry, true)],
    ['so does its webhook', () => writer.writeWithoutHistory(entry, false)],
  ];
  // A failure that is no refusal says nothing of what was to be written: no delivery is ended for it.
  if (!isRefused(why)) variants.splice(1, 1);
  let failure = why;
  for (const [message, attempt] of variants) {
    try {
      const isWritten = await attempt();
      if (isWritten) log.error({ err: why, delivery: delivery.id, webhook: delivery.webhookId, shard }, message);
      return isWritten;
    } catch (error) {
      // The next has reduced in it.
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

  /** Answers undefined where not even reduced can be written, yet. */
  const writeOne = async ({ entry, tries }: PendingEntry, refusal: unknown): Promise<boolean | undefined> => {
    try {
      return await writeReduced(writer, deps, entry, refusal);
    } catch (error) {
      const about = { err: error, delivery: entry.delivery.id };
      if (tries === 0) log.error(about, 'a delivery can be recorded in no form; it is tried again');
      return undefined;
    }
  };

  const write = async (batch: readonly PendingEntry[]): Promise<void> => {
    let written: readonly boolean[];
    const single = batch.length === 1 ? batch[0] : undefined;
    // Half as much may be quick enough. A single one is not deadLettered up at once, or its history would be lost to a deadlock.
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
    // Not in here: what goes wrong with them is not the batch's fault, which would be written again.
    queueMicrotask(() => report(batch, written));
  };

  /** In the order of arrival; of several that are refused together the batch is halved, until it is one. */
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
    // What no form of can be written does not keep a shard from being taken again.
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
