/**
 * Group commit: what is submitted while a batch runs shares the next one. Pure of SQL: `run` does the work.
 */
import { isUnavailable } from './unavailable.ts';

export type Batcher<In, Out> = {
  /** Resolves or rejects with what became of this input. */
  submit: (input: In) => Promise<Out>;
  /** The same where `run` itself reports what became of each. */
  add: (input: In) => void;
  /** Bytes of what waits for its batch. */
  waitingBytes: () => number;
  /** Resolves when all that was submitted so far, or while it waits, is settled. */
  idle: () => Promise<void>;
};

type Waiting<In, Out> = {
  input: In;
  rows: number;
  bytes: number;
  resolve: (value: Out) => void;
  reject: (error: unknown) => void;
};

/** How many of the first are within the limits together: one at least. */
const fitting = (
  queue: readonly { rows: number; bytes: number }[],
  limits: { maxRows: number; maxBytes: number },
): number => {
  let [rows, bytes, count] = [0, 0, 0];
  for (const waiting of queue) {
    rows += waiting.rows;
    bytes += waiting.bytes;
    if (count > 0 && (rows > limits.maxRows || bytes > limits.maxBytes)) break;
    count += 1;
  }
  return count;
};

/** Nobody waits for it. */
const nobody = (): void => {};

/**
 * One batch at a time, in the order of arrival, of at most `maxRows` and `maxBytes` (an input larger than that makes a
 * batch of its own). `run` answers one result for each input. When a batch of several fails, its halves are tried apart,
 * so that a poison row fails by itself in the end; unless the database is away, which is nobody's row's fault.
 */
export const createBatcher = <In, Out>(options: {
  maxRows: number;
  maxBytes: number;
  sizeOf: (input: In) => { rows: number; bytes: number };
  run: (inputs: readonly In[]) => Promise<readonly Out[]>;
}): Batcher<In, Out> => {
  const queue: Waiting<In, Out>[] = [];
  let waitingBytes = 0;
  let draining: Promise<void> | undefined;

  const nextBatch = (): Waiting<In, Out>[] => {
    const batch = queue.splice(0, fitting(queue, options));
    for (const one of batch) waitingBytes -= one.bytes;
    return batch;
  };

  /** Answers why the database is away, where it is. */
  const settle = async (batch: readonly Waiting<In, Out>[]): Promise<unknown> => {
    const rejectAll = (error: unknown) => batch.forEach(({ reject }) => reject(error));
    try {
      const results = await options.run(batch.map(({ input }) => input));
      if (results.length !== batch.length) throw new TypeError('A batch must answer one result for each input');
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Out);
    } catch (error) {
      if (isUnavailable(error)) {
        rejectAll(error);
        return error;
      }
      if (batch.length === 1) rejectAll(error);
      else return settleHalves(batch);
    }
    return undefined;
  };

  /** In order, so that one poison row among 500 costs 18 runs and not 500. */
  const settleHalves = async (batch: readonly Waiting<In, Out>[]): Promise<unknown> => {
    const middle = Math.ceil(batch.length / 2);
    const rest = batch.slice(middle);
    const away = (await settle(batch.slice(0, middle))) ?? undefined;
    if (away === undefined) return settle(rest);
    for (const { reject } of rest) reject(away);
    return away;
  };

  const drain = async (): Promise<void> => {
    // After the code that submits, so that what arrived together goes together.
    await Promise.resolve();
    while (queue.length > 0) await settle(nextBatch());
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
    add: (input) => enqueue({ input, ...options.sizeOf(input), resolve: nobody, reject: nobody }),
    waitingBytes: () => waitingBytes,
    idle: async () => draining,
  };
};
