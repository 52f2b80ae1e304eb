/** Publishes the events of a platform's stores to Halcyon. */
import { systemClock, type Clock } from './clock.ts';
import { closedError, PublishError } from './error.ts';
import { serialize, type EventInput, type SerializedEvent } from './event.ts';
import { readOptions, type PublisherOptions } from './options.ts';
import { Queue, type QueuedEvent } from './queue.ts';
import { createRequest } from './request.ts';
import { sendBatch, type PublishedEvent } from './send.ts';

export { PublishError, type Fault, type PublishErrorCode } from './error.ts';
export type { Clock, EventInput, PublishedEvent, PublisherOptions };

export type Publisher = {
  /**
   * Resolves with the published event when the server has committed it; rejects with a `PublishError` if this event is not
   * published. Events of a store are published in the order of the calls. An aborted signal removes the event if it is not being
   * sent yet.
   */
  publish: (storeId: number | string, event: EventInput, options?: { signal?: AbortSignal }) => Promise<PublishedEvent>;
  /** Resolves when there is capacity for an event. Await it before each `publish` to limit memory. */
  ready: () => Promise<void>;
  /**
   * Sends all events without delay, and resolves when each is published or rejected. When the signal is aborted, the remaining
   * events are rejected. Later calls of `publish` are rejected.
   */
  close: (options?: { signal?: AbortSignal }) => Promise<void>;
  /** The number and bytes of events that are queued or being sent. */
  readonly waiting: { events: number; bytes: number };
};

const STORE_ID = /^[1-9][0-9]{0,15}$/;

/** Adds an event to the queue; an aborted signal removes it. */
function enqueue(
  queue: Queue,
  event: Omit<QueuedEvent, 'resolve' | 'reject'>,
  signal: AbortSignal | undefined,
): Promise<PublishedEvent> {
  return new Promise<PublishedEvent>((resolve, reject) => {
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

/** Creates a publisher, which is used for all stores of the platform. Throws a `TypeError` for an invalid option. */
export function createPublisher(options: PublisherOptions): Publisher {
  const { fetch: send = fetch, clock = systemClock, closeAtRejected = false } = options;
  const { limits, deadlineMs, credentials, ...address } = readOptions(options);
  const stop = new AbortController();
  const connection = { ...address, fetch: send, clock, stop: stop.signal };
  const request = createRequest({ connection, credentials, deadlineMs });
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
  const check = (storeId: number | string, event: EventInput): SerializedEvent => {
    try {
      if (!STORE_ID.test(String(storeId)))
        throw new PublishError('no_store', `The id of a store is a positive whole number: ${storeId}`);
      return serialize(event);
    } catch (error) {
      // The events before it wait, and are still sent.
      if (closeAtRejected) closed ??= queue.flush();
      throw error;
    }
  };

  return {
    publish: async (storeId, event, { signal } = {}) => {
      if (closed !== undefined) throw closedError();
      signal?.throwIfAborted();
      const serialized = check(storeId, event);
      return enqueue(queue, { ...serialized, storeId: String(storeId), queuedMs: clock.nowMs() }, signal);
    },
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
}
