/** Sends the batches of stores, and separates refused events from the others. */
import { closedError, PublishError, type Fault } from './error.ts';
import { objectIn, type Request, type Received } from './request.ts';
import type { QueuedEvent } from './queue.ts';

/** The event as the server has stored it. */
export type PublishedEvent = {
  id: number;
  event: string;
  resource_type: string;
  resource_id: string;
  /** 0 if the server has a version with a later `date_modified`. */
  resource_version: number;
  date_created: string;
  /** What was published, and may not be what you mean; absent if there is nothing. */
  warnings?: readonly Fault[];
};

/** What became of a version that was loaded. */
export type LoadedVersion = {
  /** `kept`: not stored, because it does not replace the stored version, or another version of the request is newer. */
  result: 'loaded' | 'kept';
  resource_type: string;
  resource_id: string;
  /** Null if it was kept. */
  resource_version: number | null;
  /** What was loaded, and may not be what you mean. */
  warnings: readonly Fault[];
};

export type ItemResult = PublishedEvent | LoadedVersion;

/** Statuses that report faults of events. Nothing of the request is published. */
const EVENT_FAULTS: ReadonlySet<number> = new Set([400, 409, 413, 422]);

/** Limits the text of an unexpected response in a message. */
const EXCERPT_CHARACTERS = 200;

/** Returns the entries of the only list that a response embeds. */
const embeddedIn = (text: string): unknown[] => Object.values(objectIn(text)['_embedded'] ?? {}).flat();

type Refused = { result: 'refused'; errors: readonly Fault[] };

const isResult = (value: unknown): value is ItemResult | Refused => {
  const { id, result } = (value ?? {}) as { id?: unknown; result?: unknown };
  return typeof id === 'number' || typeof result === 'string';
};

/** Returns the results of a response; undefined if they are not as many as were sent. */
function resultsIn(text: string, count: number): (ItemResult | Refused)[] | undefined {
  const results = embeddedIn(text);
  return results.length === count && results.every(isResult) ? results : undefined;
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Returns the faults by index of their event; by undefined those that name no event. */
function faultsIn(text: string, count: number): Map<number | undefined, Fault[]> {
  const faults = new Map<number | undefined, Fault[]>();
  for (const entry of embeddedIn(text)) {
    const { code, message, field } = (entry ?? {}) as Record<string, unknown>;
    const [, index, member] = /^([0-9]+)(?:\.(.+))?$/.exec(asText(field)) ?? [];
    const at = index !== undefined && Number(index) < count ? Number(index) : undefined;
    const own = member === undefined ? asText(message) : asText(message).replace(asText(field), () => member);
    const path = at === undefined ? asText(field) : member;
    const fault = { code: asText(code), message: own, ...(path === undefined ? {} : { field: path }) };
    faults.set(at, [...(faults.get(at) ?? []), fault]);
  }
  return faults;
}

function refusedError({ status, text, mayBePublished }: Received, faults: readonly Fault[]): PublishError {
  const reasons = faults.map(({ message }) => message).join('; ');
  const message = `The server refused the event: ${reasons || `${status} ${text.slice(0, EXCERPT_CHARACTERS)}`}`;
  return new PublishError('refused', message, { status, faults, mayBePublished });
}

/** Returns the error for a response that applies to the whole request. */
function failureOf({ status, text, mayBePublished }: Received, storeId: string): PublishError {
  const faults = faultsIn(text, 0).get(undefined) ?? [];
  const reason = `${status} ${faults[0]?.message ?? text.replaceAll(/\s+/g, ' ').slice(0, EXCERPT_CHARACTERS)}`;
  const message = `Nothing can be published to store ${storeId}: ${reason}`;
  const details = { status, faults, mayBePublished };
  if (status === 401 || status === 403) return new PublishError('unauthorized', message, details);
  if (status === 404) return new PublishError('no_store', message, details);
  const advice = 'check baseUrl, and proxies before the server';
  const isSuccess = status >= 200 && status < 300;
  return new PublishError('unexpected', `${message}; ${advice}`, {
    ...details,
    mayBePublished: mayBePublished || isSuccess,
  });
}

type Parts = (readonly QueuedEvent[])[];

/**
 * Sends events once, and settles those with a result. Returns the parts to send again, in order. If the order must not have gaps, the
 * first refused event is a part of its own, so that the events before it are settled first.
 */
async function sendPart(events: readonly QueuedEvent[], request: Request, allowsGaps: boolean): Promise<Parts> {
  const response = await request(events);
  const results = response.status === 200 ? resultsIn(response.text, events.length) : undefined;
  if (results !== undefined) {
    let refused: PublishError | undefined;
    for (const [index, result] of results.entries()) {
      if (!('result' in result) || result.result !== 'refused') {
        events[index]?.resolve(result);
        continue;
      }
      const error = refusedError(response, result.errors);
      refused ??= error;
      events[index]?.reject(error);
    }
    if (refused !== undefined && !allowsGaps) throw refused;
    return [];
  }
  if (!EVENT_FAULTS.has(response.status)) throw failureOf(response, events[0]?.storeId ?? '');
  const faults = faultsIn(response.text, events.length);
  if (events.length === 1) throw refusedError(response, [...faults.values()].flat());
  const first = events.findIndex((_, index) => faults.has(index));
  if (!allowsGaps && first !== -1)
    return [events.slice(0, first), events.slice(first, first + 1), events.slice(first + 1)].filter(
      (one) => one.length > 0,
    );
  const others = events.filter((event, index) => {
    const own = faults.get(index);
    if (own !== undefined) event.reject(refusedError(response, own));
    return own === undefined;
  });
  if (others.length < events.length) return others.length === 0 ? [] : [others];
  // The response names no event, such as for a body that is too large.
  const half = Math.ceil(events.length / 2);
  return [events.slice(0, half), events.slice(half)];
}

/**
 * Sends events of one store and settles each of them; does not throw. The server publishes an array as a whole or not at all, so
 * the events beside a refused one are sent again; versions that are loaded have a result each. With `onRejected`, which is called at the first event that is not published, those
 * after it are rejected.
 */
export async function sendBatch(
  batch: readonly QueuedEvent[],
  request: Request,
  onRejected?: () => void,
): Promise<void> {
  const parts = [batch];
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    try {
      parts.unshift(...(await sendPart(part, request, onRejected === undefined)));
    } catch (error) {
      for (const event of part) event.reject(error);
      if (error instanceof PublishError && error.code === 'closed') continue;
      if (onRejected !== undefined) {
        onRejected();
        for (const event of parts.splice(0).flat()) event.reject(closedError());
      } else if (!(error instanceof PublishError && error.code === 'refused')) {
        // An outage may end before the parts after this one are sent: they must not overtake it.
        for (const event of parts.splice(0).flat()) event.reject(error);
      }
    }
  }
}
