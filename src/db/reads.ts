/** Short reads that share connections: those of one tick are sent in one write, and their results are read together. */
import type { Connection, PostgresError } from './connection.ts';
import type { Connections } from './connections.ts';
import { createTag, type Command, type Queryable, type Rows } from './statement.ts';

/** Reads that wait for each other on one connection. More of one tick take several. */
const TOGETHER_MAX = 32;

type Result = Promise<Rows<readonly unknown[]>>;
type Waiting = { command: Command; resolve: (rows: Result) => void; reject: (error: unknown) => void };

const isStale = (error: unknown): boolean => (error as Partial<PostgresError>).isStale === true;

/**
 * Returns a tag for short reads. `again` executes a read whose connection has lost its prepared statements. A write to a server
 * process that sleeps costs some 60 µs of processor time: 64 requests at once, each with a statement of its own on one of ten
 * connections, took 365 µs a request instead of 115 (`bench/http.ts`, GET of a webhook).
 */
export function createReads(pool: Connections, again: (command: Command) => Result): Queryable {
  const waiting: Waiting[] = [];
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

type Caller<Row> = { resolve: (row: Row | undefined) => void; reject: (error: unknown) => void };

/**
 * Returns a function that looks up one key. A read starts after all of its callers have called, so none of them gets a state that
 * is older than its call. `read` returns one row, or undefined, for each key. Contains no SQL and no cache.
 */
export function createLookup<Row>(
  read: (keys: readonly string[]) => Promise<readonly (Row | undefined)[]>,
): (key: string) => Promise<Row | undefined> {
  let waiting = new Map<string, Caller<Row>[]>();
  let isReading = false;

  const readAll = async (callers: ReadonlyMap<string, readonly Caller<Row>[]>): Promise<void> => {
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
