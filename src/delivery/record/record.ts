/** What became of deliveries, written down in batches; nothing is dropped while the shard is ours. */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher, type Batcher } from '#database/batch.ts';
import { putAside, type Entry } from './entry.ts';
import { RETRY_MS, Writer, type WriterDeps } from './writer.ts';

export type Recorder = {
  /** Resolves with true once committed, with false when the shard was lost and nothing was written. */
  record: (entry: Entry) => Promise<boolean>;
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

/** Batches in the order of arrival; of several that are refused together the batch is halved, until it is one. */
const createBatches = (writer: Writer, deps: WriterDeps): Batcher<Entry, boolean> =>
  createBatcher<Entry, boolean>({
    maxRows: BATCH_ROWS,
    maxBytes: BATCH_BYTES,
    sizeOf: ({ attempt }) => ({ rows: 1, bytes: 200 + (attempt?.outcome.reply?.body.length ?? 0) }),
    run: async (entries) => {
      try {
        return await writer.write(entries, true);
      } catch (error) {
        const [only] = entries;
        if (only === undefined || entries.length > 1) throw error;
        return [await writeLess(writer, deps, only, error)];
      }
    },
  });

export const createRecorder = (deps: WriterDeps): Recorder => {
  const batches = createBatches(new Writer(deps), deps);
  let unrecorded = 0;

  const untilRecorded = async (entry: Entry): Promise<boolean> => {
    for (let tries = 0; deps.fenceOf(entry.shard) !== undefined; tries += 1) {
      try {
        return await batches.submit(entry);
      } catch (error) {
        const about = { err: error, delivery: entry.delivery.id };
        if (tries === 0) deps.log.error(about, 'the database refuses a delivery in every form; it is tried again');
        await wait(Math.min(RETRY_MS * 2 ** tries, REFUSED_RETRY_MAX_MS));
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
