/** Shared reads: keys that are looked up while a read runs share the next one, and callers with the same key share a row. */

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
