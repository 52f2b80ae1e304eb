/** Publishes the events of a platform's stores to Halcyon. */
import { systemClock, type Clock } from './clock.ts';
import { closedError, PublishError } from './error.ts';
import { serialize, type EventInput, type LoadInput, type SerializedEvent } from './event.ts';
import { readOptions, type PublisherOptions } from './options.ts';
import { Queue, type QueuedEvent } from './queue.ts';
import { createRequest, type Target } from './request.ts';
import { sendBatch, type ItemResult, type LoadedVersion, type PublishedEvent } from './send.ts';

export { PublishError, type Fault, type PublishErrorCode } from './error.ts';
export type { Clock, EventInput, LoadedVersion, LoadInput, PublishedEvent, PublisherOptions };

type Sender = {
  /** Resolves when there is capacity for an item. Await it before each `publish` or `load` to limit memory. */
  ready: () => Promise<void>;
  /**
   * Sends all items without delay, and resolves when each is published or rejected. When the signal is aborted, the remaining
   * ones are rejected. Later calls of `publish` and `load` are rejected.
   */
  close: (options?: { signal?: AbortSignal }) => Promise<void>;
  /** The number and bytes of items that are queued or being sent. */
  readonly waiting: { events: number; bytes: number };
};

export type Publisher = Sender & {
  /**
   * Resolves with the published event when the server has committed it; rejects with a `PublishError` if this event is not
   * published. Events of a store are published in the order of the calls. An aborted signal removes the event if it is not being
   * sent yet.
   */
  publish: (storeId: number | string, event: EventInput, options?: { signal?: AbortSignal }) => Promise<PublishedEvent>;
};

export type Loader = Sender & {
  /**
   * Stores a version that the platform had before, without an event; resolves when the server has committed it, or keeps the stored one.
   * Rejects with a `PublishError` if it is refused.
   */
  load: (storeId: number | string, version: LoadInput, options?: { signal?: AbortSignal }) => Promise<LoadedVersion>;
};

const STORE_ID = /^[1-9][0-9]{0,15}$/;

/** Adds an event to the queue; an aborted signal removes it. */
function enqueue(
  queue: Queue,
  event: Omit<QueuedEvent, 'resolve' | 'reject'>,
  signal: AbortSignal | undefined,
): Promise<ItemResult> {
  return new Promise<ItemResult>((resolve, reject) => {
    const queued: QueuedEvent = {
      ...event,
      resolve: (published) => {
        signal?.removeEventListener('abort', onAbort);
        resolve(published);
      },
      reject: (error) => {
        signal?.removeEventListener('abort', onAbort);
        reject(error);
      },
    };
    const onAbort = () => {
      if (queue.remove(queued)) queued.reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort);
    queue.add(queued);
  });
}

/** Returns what sends items to an address of their store, and the function that adds one. */
function createSender(options: PublisherOptions, target: Target) {
  const { fetch: send = fetch, clock = systemClock, closeAtRejected = false } = options;
  const { limits, deadlineMs, credentials, ...address } = readOptions(options);
  const stop = new AbortController();
  const connection = { ...address, fetch: send, clock, stop: stop.signal };
  const request = createRequest({ connection, credentials, deadlineMs, target });
  const queue = new Queue(limits, {
    nowMs: clock.nowMs,
    send: (batch) => sendBatch(batch, request, closeAtRejected ? () => endAtRejected() : undefined),
  });
  let closed: Promise<void> | undefined;

  const rejectWaiting = (): void => {
    for (const event of queue.removeAll()) event.reject(closedError());
  };
  const closeNow = (): void => {
    stop.abort();
    rejectWaiting();
  };
  const endAtRejected = (): void => {
    rejectWaiting();
    closed ??= queue.flush();
  };
  const check = (storeId: number | string, event: EventInput | LoadInput): SerializedEvent => {
    try {
      if (!STORE_ID.test(String(storeId)))
        throw new PublishError('no_store', `The id of a store is a positive whole number: ${storeId}`);
      return serialize(event, target.example);
    } catch (error) {
      // The events before it wait, and are still sent.
      if (closeAtRejected) closed ??= queue.flush();
      throw error;
    }
  };

  const add = async (
    storeId: number | string,
    event: EventInput | LoadInput,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<ItemResult> => {
    if (closed !== undefined) throw closedError();
    signal?.throwIfAborted();
    const serialized = check(storeId, event);
    return enqueue(queue, { ...serialized, storeId: String(storeId), queuedMs: clock.nowMs() }, signal);
  };
  const sender: Sender = {
    ready: () => queue.ready(),
    close: async ({ signal } = {}) => {
      closed ??= queue.flush();
      if (signal?.aborted === true) closeNow();
      signal?.addEventListener('abort', closeNow);
      await closed;
      signal?.removeEventListener('abort', closeNow);
    },
    get waiting() {
      return queue.size;
    },
  };
  return { add, sender };
}

/** Creates a publisher, which is used for all stores of the platform. Throws a `TypeError` for an invalid option. */
export function createPublisher(options: PublisherOptions): Publisher {
  const { add, sender } = createSender(options, {
    path: 'events',
    sendsLines: false,
    example: '{ "event": "transaction/created", "resource": { "id": … } }',
  });
  return Object.assign(sender, { publish: add as Publisher['publish'] });
}

/**
 * Creates a loader of versions that the platform had before it used Halcyon. With `dryRun` the server returns the results and writes
 * nothing. A load can be repeated: what is stored already, or newer, is kept. With `closeAtRejected` the items of the request after a refused
 * one may be loaded, because each item is loaded by itself.
 */
export function createLoader({ dryRun = false, ...options }: PublisherOptions & { dryRun?: boolean }): Loader {
  const { add, sender } = createSender(options, {
    path: dryRun ? 'load?dry_run=1' : 'load',
    sendsLines: true,
    example: '{ "type": "transaction", "resource": { "id": … } }',
  });
  return Object.assign(sender, { load: add as Loader['load'] });
}
