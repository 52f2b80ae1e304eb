/** Publishes the events of a platform's stores to Halcyon. */
import { type Clock, type Credentials, systemClock, createRequest, type Target } from './request.ts';
import {
  type QueueLimits,
  serialize,
  type EventInput,
  type LoadInput,
  type SerializedEvent,
  Queue,
  type QueuedEvent,
} from './queue.ts';
import { closedError, PublishError } from './error.ts';
import { sendBatch, type ItemResult, type LoadedVersion, type PublishedEvent } from './send.ts';

export type PublisherOptions = {
  /** The address of the server, such as `https://partners.example.com`. */
  baseUrl: string;
  /** The id and secret of the platform's client (`halcyon client create --trusted`). */
  clientId: string;
  clientSecret: string;
  /** The name of the header with the version of the API; default `SERVICE-API-VERSION`. */
  versionHeader?: string;
  /** The maximum number of events in a request, at most 1,000; default 500. */
  batchEvents?: number;
  /** The maximum bytes of a request; default 2 MiB. An event beyond it is sent alone. */
  batchBytes?: number;
  /** How long the first event of a store waits for others of the same request; default 5 ms. */
  delayMs?: number;
  /** The maximum number of events that are queued or being sent; default 10,000. */
  waitingEvents?: number;
  /** The maximum bytes of these events; default 64 MiB. */
  waitingBytes?: number;
  /** The maximum number of requests at once, each for another store; default 8. */
  concurrency?: number;
  /** How long the publisher tries to publish an event; default 5 minutes, at most 23 hours. */
  deadlineMs?: number;
  /** The time limit of one request; default 30 seconds. */
  requestTimeoutMs?: number;
  /**
   * Closes the publisher at the first event that is rejected for any reason except its signal: the events of its store before it are
   * published, those after it are rejected with `closed`. Default false: the others are published.
   */
  closeAtRejected?: boolean;
  /** Sends the requests, such as through a proxy; default the global `fetch`. */
  fetch?: typeof fetch;
  /** Replaces time and randomness in tests. */
  clock?: Clock;
};

const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;

/** Defaults and limits. Idempotency keys are kept for 24 hours, so a request must not be repeated later. */
const NUMBERS = {
  batchEvents: { value: 500, min: 1, max: 1_000 },
  batchBytes: { value: 2 * MIB, min: 1, max: 16 * MIB },
  delayMs: { value: 5, min: 0, max: 60_000 },
  waitingEvents: { value: 10_000, min: 1, max: 10_000_000 },
  waitingBytes: { value: 64 * MIB, min: 1, max: 64 * 1024 * MIB },
  concurrency: { value: 8, min: 1, max: 1_000 },
  deadlineMs: { value: 300_000, min: 1, max: 23 * HOUR_MS },
  requestTimeoutMs: { value: 30_000, min: 1, max: HOUR_MS },
} as const;

type NumberName = keyof typeof NUMBERS;

function readNumber(options: PublisherOptions, name: NumberName): number {
  const { value, min, max } = NUMBERS[name];
  const given = options[name] ?? value;
  if (!Number.isInteger(given) || given < min || given > max)
    throw new TypeError(`${name} must be a whole number from ${min} to ${max}`);
  return given;
}

function readText(options: PublisherOptions, name: 'clientId' | 'clientSecret'): string {
  const given: unknown = options[name];
  if (typeof given !== 'string' || given === '') throw new TypeError(`${name} is missing`);
  return given;
}

function readBaseUrl(given: unknown): string {
  const url = typeof given === 'string' && URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new TypeError('baseUrl must be the http or https address of the server');
  return url.origin + url.pathname.replace(/\/+$/, '');
}

type Settings = {
  baseUrl: string;
  versionHeader: string;
  credentials: Credentials;
  limits: QueueLimits;
  deadlineMs: number;
  requestTimeoutMs: number;
};

/** Returns the settings with their defaults; throws a `TypeError` that names an invalid option. */
function readOptions(options: PublisherOptions): Settings {
  const number = (name: NumberName) => readNumber(options, name);
  return {
    baseUrl: readBaseUrl(options.baseUrl),
    versionHeader: options.versionHeader ?? 'SERVICE-API-VERSION',
    credentials: { clientId: readText(options, 'clientId'), clientSecret: readText(options, 'clientSecret') },
    limits: {
      batchEvents: number('batchEvents'),
      batchBytes: number('batchBytes'),
      delayMs: number('delayMs'),
      waitingEvents: number('waitingEvents'),
      waitingBytes: number('waitingBytes'),
      concurrency: number('concurrency'),
    },
    deadlineMs: number('deadlineMs'),
    requestTimeoutMs: number('requestTimeoutMs'),
  };
}

export { PublishError, type Fault, type PublishErrorCode } from './error.ts';
export type { Clock, EventInput, LoadedVersion, LoadInput, PublishedEvent };

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
