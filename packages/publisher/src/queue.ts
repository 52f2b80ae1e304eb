/**
 * Events that wait to be sent: in order for each store, in batches, up to a total number and size.
 *
 * ```
 *   publish ──► outside ──► lane of the store ──► batch ──► settled
 *               (no capacity)     ▲   one batch of a store at a time
 *               order of publish  └── capacity is released when a batch has ended
 * ```
 */
import { PublishError } from './error.ts';
import type { ItemResult } from './send.ts';

/**
 * An event to publish, or its JSON text, which is sent as it is written: numbers keep their digits (`12.50`,
 * `9007199254740993`).
 */
export type EventInput =
  | {
      /** A type of the event catalogue, such as `transaction/created`. */
      event: string;
      /** The complete resource, with its `id`. */
      resource: object;
      /** Identifies the event for 24 hours: a repetition, also by another process, is not published again. */
      idempotency_key?: string | null;
    }
  | string;

/** A version of a resource that the platform had before it used Halcyon, or its JSON text, which is sent as it is written. */
export type LoadInput =
  | {
      /** The type of the resource, such as `transaction`. */
      type: string;
      /** The complete resource, with its `id` and its `date_modified`. */
      resource: object;
    }
  | string;

/** `key`: the event's own idempotency key. `bytes` includes the comma of an array. */
export type SerializedEvent = { text: string; bytes: number; key: string | undefined };

const encoder = new TextEncoder();

const NOT_JSON = 'The event is not JSON';

/** Returns the result of a function of JSON; throws a `PublishError` if the function throws. */
function checked<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    const hint = error instanceof TypeError ? '. For exact numbers give the event as JSON text' : '';
    throw new PublishError('invalid_event', `${NOT_JSON} (${(error as Error).message})${hint}`);
  }
}

/** Checks only what the server cannot report for one event of an array: whether the text is a JSON object. */
export function serialize(event: EventInput | LoadInput, example: string): SerializedEvent {
  const noObject = `The event must be an object: ${example}`;
  const text = typeof event === 'string' ? event : checked(() => JSON.stringify(event) as string | undefined);
  if (text === undefined) throw new PublishError('invalid_event', noObject);
  const value: unknown = checked(() => JSON.parse(text));
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new PublishError('invalid_event', noObject);
  const { idempotency_key: key } = value as { idempotency_key?: unknown };
  return {
    text,
    bytes: encoder.encode(text).length + 1,
    key: typeof key === 'string' && key !== '' ? key : undefined,
  };
}

export type QueuedEvent = SerializedEvent & {
  storeId: string;
  /** When `publish` was called, or when there was capacity for the event. */
  queuedMs: number;
  resolve: (result: ItemResult) => void;
  reject: (error: unknown) => void;
};

export type QueueLimits = {
  /** Limits of one request; a larger event is a batch of its own. */
  batchEvents: number;
  batchBytes: number;
  /** How long the first event of a store waits for others. */
  delayMs: number;
  /** Limits of all events, including those that are being sent. */
  waitingEvents: number;
  waitingBytes: number;
  /** Requests at once, each of another store. */
  concurrency: number;
};

type Lane = {
  storeId: string;
  waiting: Set<QueuedEvent>;
  bytes: number;
  isSending: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
};

/** Takes the events of the next request. All of them have a key of their own, or none has; a key occurs once. */
function takeBatch(lane: Lane, limits: QueueLimits): QueuedEvent[] {
  const batch: QueuedEvent[] = [];
  const keys = new Set<string>();
  let bytes = 0;
  for (const event of lane.waiting) {
    bytes += event.bytes;
    const [first] = batch;
    if (first !== undefined) {
      const isFull = batch.length === limits.batchEvents || bytes > limits.batchBytes;
      const isMixed = (event.key === undefined) !== (first.key === undefined);
      if (isFull || isMixed || (event.key !== undefined && keys.has(event.key))) break;
    }
    batch.push(event);
    if (event.key !== undefined) keys.add(event.key);
  }
  for (const event of batch) {
    lane.waiting.delete(event);
    lane.bytes -= event.bytes;
  }
  return batch;
}

export class Queue {
  readonly #limits: QueueLimits;
  readonly #nowMs: () => number;
  readonly #send: (batch: readonly QueuedEvent[]) => Promise<void>;
  readonly #lanes = new Map<string, Lane>();
  /** Lanes with a batch to send, the longest waiting first. */
  readonly #due = new Set<Lane>();
  /** Events without capacity, in the order of `publish`. */
  readonly #outside = new Set<QueuedEvent>();
  #waitingForCapacity: (() => void)[] = [];
  #waitingForEnd: (() => void)[] = [];
  #events = 0;
  #bytes = 0;
  #sending = 0;
  #isFlushing = false;

  /** `send` settles each event of a batch, and does not throw. */
  constructor(
    limits: QueueLimits,
    { nowMs, send }: { nowMs: () => number; send: (batch: readonly QueuedEvent[]) => Promise<void> },
  ) {
    this.#limits = limits;
    this.#nowMs = nowMs;
    this.#send = send;
  }

  /** The events and bytes that have capacity. */
  get size(): { events: number; bytes: number } {
    return { events: this.#events, bytes: this.#bytes };
  }

  add(event: QueuedEvent): void {
    this.#outside.add(event);
    this.#admit();
  }

  /** Removes an event that is not being sent; returns whether it was removed. */
  remove(event: QueuedEvent): boolean {
    if (this.#outside.delete(event)) {
      this.#admit();
      return true;
    }
    const lane = this.#lanes.get(event.storeId);
    if (lane?.waiting.delete(event) !== true) return false;
    lane.bytes -= event.bytes;
    this.#release([event]);
    this.#forgetIdle(lane);
    return true;
  }

  /** Resolves when there is capacity for an event. */
  ready(): Promise<void> {
    if (this.#hasCapacity()) return Promise.resolve();
    return new Promise((resolve) => void this.#waitingForCapacity.push(resolve));
  }

  /** Sends from now on without delay; resolves when every event is settled. */
  flush(): Promise<void> {
    this.#isFlushing = true;
    for (const lane of this.#lanes.values()) this.#schedule(lane);
    if (this.#events === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#waitingForEnd.push(resolve));
  }

  /** Removes all events that are not being sent. */
  removeAll(): QueuedEvent[] {
    // First, so that the removal of others admits none of them.
    const removed = [...this.#outside];
    this.#outside.clear();
    for (const lane of this.#lanes.values()) {
      for (const event of lane.waiting) {
        removed.push(event);
        this.remove(event);
      }
    }
    return removed;
  }

  #hasCapacity(): boolean {
    const { waitingEvents, waitingBytes } = this.#limits;
    return this.#outside.size === 0 && this.#events < waitingEvents && this.#bytes < waitingBytes;
  }

  /** Moves events into their lanes while there is capacity; an event larger than the limit is admitted alone. */
  #admit(): void {
    const { waitingEvents, waitingBytes } = this.#limits;
    for (const event of this.#outside) {
      const fits = this.#events < waitingEvents && this.#bytes + event.bytes <= waitingBytes;
      if (!fits && this.#events > 0) break;
      this.#outside.delete(event);
      this.#events += 1;
      this.#bytes += event.bytes;
      event.queuedMs = this.#nowMs();
      const lane = this.#laneOf(event.storeId);
      lane.waiting.add(event);
      lane.bytes += event.bytes;
      this.#schedule(lane);
    }
    if (!this.#hasCapacity()) return;
    for (const resolve of this.#waitingForCapacity.splice(0)) resolve();
    if (this.#events === 0) for (const resolve of this.#waitingForEnd.splice(0)) resolve();
  }

  #release(events: readonly QueuedEvent[]): void {
    this.#events -= events.length;
    for (const { bytes } of events) this.#bytes -= bytes;
    this.#admit();
  }

  #laneOf(storeId: string): Lane {
    const found = this.#lanes.get(storeId);
    if (found !== undefined) return found;
    const lane: Lane = { storeId, waiting: new Set(), bytes: 0, isSending: false, timer: undefined };
    this.#lanes.set(storeId, lane);
    return lane;
  }

  #forgetIdle(lane: Lane): void {
    if (lane.isSending || lane.waiting.size > 0) return;
    clearTimeout(lane.timer);
    this.#due.delete(lane);
    this.#lanes.delete(lane.storeId);
  }

  /** Makes the lane due if it has a full batch; otherwise after the delay. */
  #schedule(lane: Lane): void {
    const { batchEvents, batchBytes, delayMs } = this.#limits;
    if (lane.isSending || lane.waiting.size === 0 || this.#due.has(lane)) return;
    if (this.#isFlushing || lane.waiting.size >= batchEvents || lane.bytes >= batchBytes) this.#makeDue(lane);
    else lane.timer ??= setTimeout(() => this.#makeDue(lane), delayMs);
  }

  #makeDue(lane: Lane): void {
    clearTimeout(lane.timer);
    lane.timer = undefined;
    this.#due.add(lane);
    this.#begin();
  }

  #begin(): void {
    for (const lane of this.#due) {
      if (this.#sending === this.#limits.concurrency) return;
      this.#due.delete(lane);
      void this.#sendBatch(lane);
    }
  }

  async #sendBatch(lane: Lane): Promise<void> {
    const batch = takeBatch(lane, this.#limits);
    lane.isSending = true;
    this.#sending += 1;
    await this.#send(batch);
    this.#sending -= 1;
    lane.isSending = false;
    // Without delay: the events have waited for the request before them.
    if (lane.waiting.size > 0) this.#due.add(lane);
    this.#release(batch);
    this.#forgetIdle(lane);
    this.#begin();
  }
}
