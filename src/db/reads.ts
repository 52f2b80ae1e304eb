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
