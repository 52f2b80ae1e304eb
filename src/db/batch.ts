/** What concurrent callers share: a batch that is written in one transaction, a connection for short reads, a read of several keys. */
import { isStale, type Connection, type Connections } from './connection.ts';
import { createTag, type Command, type Queryable, type Rows } from './statement.ts';
import { isUnavailable } from './unavailable.ts';

// Group commit: inputs that are submitted while a batch runs share the next batch. Contains no SQL: `run` executes the batch.

export type Batcher<In, Out> = {
  /** Resolves or rejects with the result of this input. */
  submit: (input: In) => Promise<Out>;
  /** Enqueues an input whose result `run` reports itself. */
  add: (input: In) => void;
};

type Waiting<In, Out> = { input: In; resolve: (value: Out) => void; reject: (error: unknown) => void };

function ignore(): void {}

/**
 * Runs a batch and settles its inputs. If it fails, both halves run in order: one poison row among 500 costs 18 runs instead of 500. Returns
 * the error if the database is unavailable.
 */
async function runInHalves<In, Out>(
  batch: readonly Waiting<In, Out>[],
  run: (inputs: readonly In[]) => Promise<readonly Out[]>,
): Promise<unknown> {
  const rejectAll = (some: readonly Waiting<In, Out>[], error: unknown) => some.forEach(({ reject }) => reject(error));
  try {
    const results = await run(batch.map(({ input }) => input));
    if (results.length !== batch.length) throw new TypeError('A batch must return one result for each input');
    for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Out);
    return undefined;
  } catch (error) {
    if (batch.length === 1 || isUnavailable(error)) rejectAll(batch, error);
    if (isUnavailable(error)) return error;
    if (batch.length === 1) return undefined;
  }
  const middle = Math.ceil(batch.length / 2);
  const unavailable = await runInHalves(batch.slice(0, middle), run);
  if (unavailable === undefined) return runInHalves(batch.slice(middle), run);
  rejectAll(batch.slice(middle), unavailable);
  return unavailable;
}

/**
 * Returns a batcher that runs one batch at a time, in order of arrival, of at most `maxRows` inputs and `bytes.max` (a larger input is a
 * batch of its own). `run` returns one result per input. A failed batch is split in halves until the poison row fails alone;
 * if the database is unavailable, the whole batch rejects.
 *
 * With `gather` a batch waits `gather.maxMs` for further inputs, unless it has `maxRows` or one of its inputs is urgent.
 */
export function createBatcher<In, Out>({
  maxRows,
  bytes,
  gather,
  run,
}: {
  maxRows: number;
  bytes?: { max: number; of: (input: In) => number };
  gather?: { maxMs: number; isUrgent: (input: In) => boolean };
  run: (inputs: readonly In[]) => Promise<readonly Out[]>;
}): Batcher<In, Out> {
  const queue: Waiting<In, Out>[] = [];
  let isDraining = false;
  let isUrgent = false;
  let stopGathering = ignore;

  /** Returns how many inputs from the head of the queue fit into the limits together, at least one. */
  const countFitting = (): number => {
    if (bytes === undefined) return maxRows;
    let [size, count] = [0, 0];
    for (const { input } of queue) {
      size += bytes.of(input);
      if (count === maxRows || (count > 0 && size > bytes.max)) break;
      count += 1;
    }
    return count;
  };

  const mustRun = (): boolean => isUrgent || queue.length >= maxRows;

  const gathered = async (maxMs: number): Promise<void> => {
    if (mustRun()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    stopGathering = resolve;
    const timer = setTimeout(resolve, maxMs);
    await promise;
    clearTimeout(timer);
  };

  const take = (): Waiting<In, Out>[] => {
    const batch = queue.splice(0, countFitting());
    // What does not fit into a batch with an urgent input does not wait either.
    if (queue.length === 0) isUrgent = false;
    return batch;
  };

  const drain = async (): Promise<void> => {
    // Starts after the submitting code, so that inputs of the same tick share a batch.
    await Promise.resolve();
    while (queue.length > 0) {
      if (gather !== undefined) await gathered(gather.maxMs);
      await runInHalves(take(), run);
    }
    isDraining = false;
  };

  const enqueue = (one: Waiting<In, Out>): void => {
    queue.push(one);
    isUrgent ||= gather?.isUrgent(one.input) === true;
    if (mustRun()) stopGathering();
    if (isDraining) return;
    isDraining = true;
    void drain();
  };

  return {
    submit: (input) => {
      const { promise, resolve, reject } = Promise.withResolvers<Out>();
      enqueue({ input, resolve, reject });
      return promise;
    },
    add: (input) => enqueue({ input, resolve: ignore, reject: ignore }),
  };
}

// Short reads that share connections: those of one tick are sent in one write, and their results are read together.

/** Reads that wait for each other on one connection. More of one tick take several. */
const TOGETHER_MAX = 32;

type Result = Promise<Rows<readonly unknown[]>>;
type Read = { command: Command; resolve: (rows: Result) => void; reject: (error: unknown) => void };

/**
 * Returns a tag for short reads. `again` executes a read whose connection has lost its prepared statements. A write to a server
 * process that sleeps costs some 60 µs of processor time: 64 requests at once, each with a statement of its own on one of ten
 * connections, took 365 µs a request instead of 115 (`bench/http.ts`, GET of a webhook).
 */
export function createReads(pool: Connections, again: (command: Command) => Result): Queryable {
  const waiting: Read[] = [];
  let isSending = false;

  const sendTo = async (connection: Connection): Promise<void> => {
    const taken = waiting.splice(0, TOGETHER_MAX);
    const running = connection.together(() => taken.map(({ command }) => connection.query(command)));
    const ends = await Promise.allSettled(
      running.map((rows, index) => {
        // Results are handed over as they arrive; failures wait, because a stale statement ends the connection of all.
        rows.then(() => taken[index]?.resolve(rows)).catch(() => {});
        return rows;
      }),
    );
    const repeats = ends.some((end) => end.status === 'rejected' && isStale(end.reason));
    for (const [index, end] of ends.entries()) {
      const one = taken[index];
      if (end.status === 'fulfilled' || one === undefined) continue;
      if (repeats) one.resolve(again(one.command));
      else one.reject(end.reason);
    }
  };

  /** Waits for a connection and sends what waits by then. */
  const send = async (): Promise<void> => {
    try {
      await pool.run((connection) => {
        isSending = false;
        schedule(waiting.length - TOGETHER_MAX);
        return sendTo(connection);
      });
    } catch (error) {
      isSending = false;
      for (const { reject } of waiting.splice(0)) reject(error);
    }
  };

  const schedule = (count: number): void => {
    if (count <= 0 || isSending) return;
    isSending = true;
    // Reads of the same tick are sent together.
    queueMicrotask(() => void send());
  };

  return createTag(async (command) => {
    const { promise, ...caller } = Promise.withResolvers<Rows<readonly unknown[]>>();
    waiting.push({ command: command(), ...caller });
    schedule(waiting.length);
    return promise;
  });
}

// Shared reads: keys that are looked up while a read runs share the next one, and callers with the same key share a row.

/** Keys of one read. */
const KEYS_MAX = 500;
/** A read that takes longer no longer delays the next one: its connection may be lost. */
const LATE_MS = 50;

type Reader<Row> = { resolve: (row: Row | undefined) => void; reject: (error: unknown) => void };

/**
 * Returns a function that looks up one key. A read starts after all of its callers have called, so none of them gets a state that
 * is older than its call. `read` returns one row, or undefined, for each key. Contains no SQL and no cache.
 */
export function createLookup<Row>(
  read: (keys: readonly string[]) => Promise<readonly (Row | undefined)[]>,
): (key: string) => Promise<Row | undefined> {
  let waiting = new Map<string, Reader<Row>[]>();
  let isReading = false;

  const readAll = async (callers: ReadonlyMap<string, readonly Reader<Row>[]>): Promise<void> => {
    try {
      const rows = await read([...callers.keys()]);
      for (const [index, same] of [...callers.values()].entries()) {
        for (const { resolve } of same) resolve(rows[index]);
      }
    } catch (error) {
      for (const { reject } of [...callers.values()].flat()) reject(error);
    }
  };

  const next = async (): Promise<void> => {
    if (isReading || waiting.size === 0) return;
    isReading = true;
    const taken = new Map([...waiting].slice(0, KEYS_MAX));
    waiting = taken.size === waiting.size ? new Map() : new Map([...waiting].slice(KEYS_MAX));
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      isReading = false;
      void next();
    };
    const late = setTimeout(end, LATE_MS);
    await readAll(taken);
    clearTimeout(late);
    end();
  };

  return (key) => {
    const { promise, ...caller } = Promise.withResolvers<Row | undefined>();
    const same = waiting.get(key);
    if (same === undefined) waiting.set(key, [caller]);
    else same.push(caller);
    // Calls of the same tick share a read.
    if (!isReading) queueMicrotask(() => void next());
    return promise;
  };
}
