/** Group commit: inputs that are submitted while a batch runs share the next batch. Contains no SQL: `run` executes the batch. */
import { isUnavailable } from './unavailable.ts';

export type Batcher<In, Out> = {
  /** Resolves or rejects with the result of this input. */
  submit: (input: In) => Promise<Out>;
  /** Enqueues an input whose result `run` reports itself. */
  add: (input: In) => void;
  /** Returns the size of the queued inputs in bytes. */
  waitingBytes: () => number;
  /** Resolves when the queue is empty, including inputs that are submitted meanwhile. */
  idle: () => Promise<void>;
};

type Waiting<In, Out> = {
  input: In;
  rows: number;
  bytes: number;
  resolve: (value: Out) => void;
  reject: (error: unknown) => void;
};

/** Returns how many entries from the head of the queue fit into the limits together, at least one. */
function countFitting(
  queue: readonly { rows: number; bytes: number }[],
  limits: { maxRows: number; maxBytes: number },
): number {
  let [rows, bytes, count] = [0, 0, 0];
  for (const waiting of queue) {
    rows += waiting.rows;
    bytes += waiting.bytes;
    if (count > 0 && (rows > limits.maxRows || bytes > limits.maxBytes)) break;
    count += 1;
  }
  return count;
}

function ignore(): void {}

/**
 * Returns a batcher that runs one batch at a time, in order of arrival, of at most `maxRows` and `maxBytes` (a larger input is a
 * batch of its own). `run` returns one result per input. A failed batch is split in halves until the poison row fails alone;
 * if the database is unavailable, the whole batch rejects.
 */
export function createBatcher<In, Out>(options: {
  maxRows: number;
  maxBytes: number;
  sizeOf: (input: In) => { rows: number; bytes: number };
  run: (inputs: readonly In[]) => Promise<readonly Out[]>;
}): Batcher<In, Out> {
  const queue: Waiting<In, Out>[] = [];
  let waitingBytes = 0;
  let draining: Promise<void> | undefined;

  const nextBatch = (): Waiting<In, Out>[] => {
    const batch = queue.splice(0, countFitting(queue, options));
    for (const one of batch) waitingBytes -= one.bytes;
    return batch;
  };

  /** Runs a batch and settles its inputs; returns the error if the database is unavailable. */
  const runBatch = async (batch: readonly Waiting<In, Out>[]): Promise<unknown> => {
    const rejectAll = (error: unknown) => batch.forEach(({ reject }) => reject(error));
    try {
      const results = await options.run(batch.map(({ input }) => input));
      if (results.length !== batch.length) throw new TypeError('A batch must return one result for each input');
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Out);
    } catch (error) {
      if (isUnavailable(error)) {
        rejectAll(error);
        return error;
      }
      if (batch.length === 1) rejectAll(error);
      else return runHalves(batch);
    }
    return undefined;
  };

  /** Runs both halves in order: one poison row among 500 costs 18 runs instead of 500. */
  const runHalves = async (batch: readonly Waiting<In, Out>[]): Promise<unknown> => {
    const middle = Math.ceil(batch.length / 2);
    const rest = batch.slice(middle);
    const unavailable = (await runBatch(batch.slice(0, middle))) ?? undefined;
    if (unavailable === undefined) return runBatch(rest);
    for (const { reject } of rest) reject(unavailable);
    return unavailable;
  };

  const drain = async (): Promise<void> => {
    // Starts after the submitting code, so that inputs of the same tick share a batch.
    await Promise.resolve();
    while (queue.length > 0) await runBatch(nextBatch());
    draining = undefined;
  };

  const enqueue = (one: Waiting<In, Out>): void => {
    waitingBytes += one.bytes;
    queue.push(one);
    draining ??= drain();
  };

  return {
    submit: (input) => {
      const { rows, bytes } = options.sizeOf(input);
      const { promise, resolve, reject } = Promise.withResolvers<Out>();
      enqueue({ input, rows, bytes, resolve, reject });
      return promise;
    },
    add: (input) => enqueue({ input, ...options.sizeOf(input), resolve: ignore, reject: ignore }),
    waitingBytes: () => waitingBytes,
    idle: async () => draining,
  };
}
