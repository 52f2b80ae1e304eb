/** What became of deliveries, written down in batches; nothing is dropped while the shard is ours. */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher } from '#database/batch.ts';
import { putAside, type Entry } from './entry.ts';
import { RETRY_MS, Writer, type WriterDeps } from './writer.ts';

export type Recorder = {
  /** Tells later, with true once committed, with false when the shard was lost and nothing was written. */
  record: (entry: Entry, onRecorded: (isWritten: boolean) => void) => void;
  unrecorded: () => number;
};

/** What cannot be written in any form is tried ever more rarely. */
const REFUSED_RETRY_MAX_MS = 30_000;
const BATCH_ROWS = 500;
const BATCH_BYTES = 8 * 1024 * 1024;

/**
 * One outcome that PostgreSQL refuses holds up neither its lane nor a stop: it is written with ever less in it. At once and
 * not in a later batch, for it may carry the state of its webhook, which must not overwrite a newer one.
 */
const writeLess = async (
  writer: Writer,
  { clock, log }: WriterDeps,
  entry: Entry,
  refusal: unknown,
): Promise<boolean> => {
  const { shard, delivery } = entry;
  const about = { err: refusal, delivery: delivery.id, webhook: delivery.webhookId, shard };
  const given = putAside(shard, delivery, 'refused by the database', clock.now());
  // The answer first: it is the one thing in an entry that others have made.
  for (const less of [entry, given]) {
    try {
      const [isHeld = false] = await writer.write([less], false);
      log.error(about, less === given ? 'an outcome could not be recorded: put aside' : 'an answer could not be kept');
      return isHeld;
    } catch {
      // Refused as well: the next has less in it.
    }
  }
  const isHeld = await writer.writeWithoutHistory(entry);
  log.error(about, 'a delivery goes on without a record of its attempt');
  return isHeld;
};

type Waiting = { entry: Entry; tries: number; onRecorded: (isWritten: boolean) => void };

export const createRecorder = (deps: WriterDeps): Recorder => {
  const { log, fenceOf } = deps;
  const writer = new Writer(deps);
  let unrecorded = 0;

  const tell = (batch: readonly Waiting[], written: readonly boolean[]): void => {
    unrecorded -= batch.length;
    for (const [index, { onRecorded }] of batch.entries()) onRecorded(written[index] === true);
  };

  /** Answers undefined where not even less can be written, yet. */
  const writeOne = async ({ entry, tries }: Waiting, refusal: unknown): Promise<boolean | undefined> => {
    try {
      return await writeLess(writer, deps, entry, refusal);
    } catch (error) {
      const about = { err: error, delivery: entry.delivery.id };
      if (tries === 0) log.error(about, 'the database refuses a delivery in every form; it is tried again');
      return undefined;
    }
  };

  const write = async (batch: readonly Waiting[]): Promise<void> => {
    let written: readonly boolean[];
    try {
      written = await writer.write(
        batch.map(({ entry }) => entry),
        true,
      );
    } catch (error) {
      const [only] = batch;
      if (only === undefined || batch.length > 1) throw error;
      const isWritten = await writeOne(only, error);
      if (isWritten === undefined) return void tryLater(only);
      written = [isWritten];
    }
    // Not in here: what goes wrong with them is not the batch's fault, which would be written again.
    queueMicrotask(() => tell(batch, written));
  };

  /** In the order of arrival; of several that are refused together the batch is halved, until it is one. */
  const batches = createBatcher<Waiting, void>({
    maxRows: BATCH_ROWS,
    maxBytes: BATCH_BYTES,
    sizeOf: ({ entry }) => ({ rows: 1, bytes: 200 + (entry.attempt?.outcome.reply?.body.length ?? 0) }),
    run: async (batch) => {
      await write(batch);
      return batch.map(() => {});
    },
  });

  const submit = (waiting: Waiting): void => {
    if (fenceOf(waiting.entry.shard) === undefined) queueMicrotask(() => tell([waiting], [false]));
    else batches.add(waiting);
  };

  const tryLater = async (waiting: Waiting): Promise<void> => {
    await wait(Math.min(RETRY_MS * 2 ** waiting.tries, REFUSED_RETRY_MAX_MS));
    submit({ ...waiting, tries: waiting.tries + 1 });
  };

  return {
    unrecorded: () => unrecorded,
    record: (entry, onRecorded) => {
      unrecorded += 1;
      submit({ entry, tries: 0, onRecorded });
    },
  };
};
