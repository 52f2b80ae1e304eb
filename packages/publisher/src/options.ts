import type { Clock } from './clock.ts';
import type { QueueLimits } from './queue.ts';
import type { Credentials } from './tokens.ts';

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

export type Settings = {
  baseUrl: string;
  versionHeader: string;
  credentials: Credentials;
  limits: QueueLimits;
  deadlineMs: number;
  requestTimeoutMs: number;
};

/** Returns the settings with their defaults; throws a `TypeError` that names an invalid option. */
export function readOptions(options: PublisherOptions): Settings {
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
