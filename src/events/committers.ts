/**
 * Who writes what is published: group commit, a few batches at a time, each store in one of them at most. So the events of a
 * store keep their order, and no two batches wait for one another's rows.
 *
 * ```
 *   waiting, by store ──► batch of many stores ──► written
 *          ▲                    │ a lock was not given in time: nobody knows of whose rows
 *          └── each store apart ┘ until one batch of its own is written
 * ```
 */
import { fitting } from '#database/batch.ts';
import { isLockTimeout, isUnavailable } from '#database/unavailable.ts';

/** Two at a time: with one, nothing is prepared while PostgreSQL writes, and with four batches are half as large. */
const PROMPT = 2;
/** So many rows go together in any case; of more that wait a batch takes its share, or the other one would have nothing to do. */
const SHARED_ROWS = 32;
/** A batch that takes longer waits for somebody, and another may begin beside it. They take 5 to 20 ms. */
const LATE_MS = 100;

type Waiting<In, Out> = {
  input: In;
  store: number;
  rows: number;
  bytes: number;
  resolve: (value: Out) => void;
  reject: (error: unknown) => void;
};

type Options<In, Out> = {
  /** Of one batch; an input that is larger makes a batch of its own. */
  maxRows: number;
  maxBytes: number;
  /** Batches at once, those that are late among them: as many connections as they may take. */
  mostAtOnce: number;
  storeOf: (input: In) => number;
  sizeOf: (input: In) => { rows: number; bytes: number };
  /** Answers one result for each input. */
  run: (inputs: readonly In[]) => Promise<readonly Out[]>;
  /** Beyond so many bytes that wait for their batch, `submit` rejects with `full()` at once. */
  waiting: { maxBytes: number; full: () => Error };
};

export class Committers<In, Out> {
  readonly #options: Options<In, Out>;
  /** In the order in which stores wait. */
  readonly #queues = new Map<number, Waiting<In, Out>[]>();
  readonly #busy = new Set<number>();
  /** Written in batches of their own: some row of theirs may be locked. */
  readonly #apart = new Set<number>();
  #running = 0;
  #prompt = 0;
  #waitingBytes = 0;
  #waitingRows = 0;
  #isCalled = false;

  constructor(options: Options<In, Out>) {
    this.#options = options;
  }

  /** Bytes of what waits for its batch. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Resolves or rejects with what became of this input. */
  submit(input: In): Promise<Out> {
    const { storeOf, sizeOf, waiting } = this.#options;
    const { rows, bytes } = sizeOf(input);
    if (this.#queues.size > 0 && this.#waitingBytes + bytes > waiting.maxBytes) return Promise.reject(waiting.full());
    const { promise, resolve, reject } = Promise.withResolvers<Out>();
    this.#enqueue([{ input, store: storeOf(input), rows, bytes, resolve, reject }], 'last');
    if (!this.#isCalled) {
      this.#isCalled = true;
      // After the code that submits, so that what arrived together goes together.
      queueMicrotask(() => {
        this.#isCalled = false;
        this.#begin();
      });
    }
    return promise;
  }

  #enqueue(several: readonly Waiting<In, Out>[], place: 'first' | 'last'): void {
    for (const [store, ofStore] of Map.groupBy(several, (one) => one.store)) {
      const queue = this.#queues.get(store) ?? [];
      this.#queues.set(store, place === 'first' ? [...ofStore, ...queue] : queue.concat(ofStore));
      for (const { bytes, rows } of ofStore) {
        this.#waitingBytes += bytes;
        this.#waitingRows += rows;
      }
    }
  }

  #begin(): void {
    while (this.#prompt < PROMPT && this.#running < this.#options.mostAtOnce) {
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      void this.#write(batch);
    }
  }

  /** What waits longest of stores that are in no batch; one that is apart by itself. */
  #nextBatch(): Waiting<In, Out>[] {
    const { maxBytes } = this.#options;
    const share = Math.max(SHARED_ROWS, Math.ceil(this.#waitingRows / PROMPT));
    const maxRows = Math.min(this.#options.maxRows, share);
    const batch: Waiting<In, Out>[] = [];
    for (const [store, queue] of this.#queues) {
      const isApart = this.#apart.has(store);
      if (this.#busy.has(store) || (isApart && batch.length > 0)) continue;
      const count = fitting([...batch, ...queue], { maxRows, maxBytes }) - batch.length;
      if (count <= 0) break;
      batch.push(...queue.slice(0, count));
      this.#queues.delete(store);
      // What is left waits behind the others.
      if (count < queue.length) this.#queues.set(store, queue.slice(count));
      if (isApart || count < queue.length) break;
    }
    for (const { bytes, rows, store } of batch) {
      this.#waitingBytes -= bytes;
      this.#waitingRows -= rows;
      this.#busy.add(store);
    }
    return batch;
  }

  async #write(batch: readonly Waiting<In, Out>[]): Promise<void> {
    this.#running += 1;
    this.#prompt += 1;
    let isLate = false;
    const late = setTimeout(() => {
      isLate = true;
      this.#prompt -= 1;
      this.#begin();
    }, LATE_MS);
    await this.#settle(batch, true);
    clearTimeout(late);
    this.#running -= 1;
    if (!isLate) this.#prompt -= 1;
    for (const { store } of batch) this.#busy.delete(store);
    this.#begin();
  }

  /**
   * Answers why the database is away, where it is. When a batch fails, its halves are tried apart, down to the input that fails;
   * a whole one that meets a lock waits again, each store of it apart.
   */
  async #settle(batch: readonly Waiting<In, Out>[], isWhole = false): Promise<unknown> {
    const rejectAll = (error: unknown) => batch.forEach(({ reject }) => reject(error));
    const stores = new Set(batch.map(({ store }) => store));
    try {
      const results = await this.#options.run(batch.map(({ input }) => input));
      if (results.length !== batch.length) throw new TypeError('A batch must answer one result for each input');
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Out);
      for (const store of stores) this.#apart.delete(store);
    } catch (error) {
      if (isUnavailable(error)) {
        rejectAll(error);
        return error;
      }
      const isLocked = isLockTimeout(error);
      if (isLocked) for (const store of stores) this.#apart.add(store);
      if (isWhole && isLocked && stores.size > 1) this.#enqueue(batch, 'first');
      else if (batch.length === 1) rejectAll(error);
      else return this.#settleHalves(batch);
    }
    return undefined;
  }

  async #settleHalves(batch: readonly Waiting<In, Out>[]): Promise<unknown> {
    const middle = Math.ceil(batch.length / 2);
    const rest = batch.slice(middle);
    const away = await this.#settle(batch.slice(0, middle));
    if (away === undefined) return this.#settle(rest);
    for (const { reject } of rest) reject(away);
    return away;
  }
}
