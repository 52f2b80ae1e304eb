/** Sends the batches of stores, and separates refused events from the others. */
import { PublishError, type Fault } from './error.ts';
import { objectIn } from './exchange.ts';
import type { QueuedEvent } from './queue.ts';
import type { Request, Response } from './request.ts';

/** The event as the server has stored it. */
export type PublishedEvent = {
  id: number;
  event: string;
  resource_type: string;
  resource_id: string;
  /** 0 if the server has a version with a later `date_modified`. */
  resource_version: number;
  date_created: string;
};

/** Statuses that report faults of events. Nothing of the request is published. */
const EVENT_FAULTS: ReadonlySet<number> = new Set([400, 409, 413, 422]);

/** Limits the text of an unexpected response in a message. */
const EXCERPT_CHARACTERS = 200;

/** Returns the entries of the only list that a response embeds. */
const embeddedIn = (text: string): unknown[] => Object.values(objectIn(text)['_embedded'] ?? {}).flat();

/** Returns the events of a response; undefined if they are not as many as were sent. */
function publishedIn(text: string, count: number): PublishedEvent[] | undefined {
  const events = embeddedIn(text) as (PublishedEvent | null)[];
  const isComplete = events.length === count && events.every((event) => typeof event?.id === 'number');
  return isComplete ? (events as PublishedEvent[]) : undefined;
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Returns the faults by index of their event; by undefined those that name no event. */
function faultsIn(text: string, count: number): Map<number | undefined, Fault[]> {
  const faults = new Map<number | undefined, Fault[]>();
  for (const entry of embeddedIn(text)) {
    const { code, message, field } = (entry ?? {}) as Record<string, unknown>;
    const [start, index, member] = /^([0-9]+)(?:\.(.+))?$/.exec(asText(field)) ?? [];
    const at = index !== undefined && Number(index) < count ? Number(index) : undefined;
    // Messages begin with the path.
    const prefix = start !== undefined && member !== undefined ? `${index}.` : '';
    const own = asText(message).startsWith(prefix) ? asText(message).slice(prefix.length) : asText(message);
    const path = at === undefined ? asText(field) : member;
    const fault = { code: asText(code), message: own, ...(path === undefined ? {} : { field: path }) };
    faults.set(at, [...(faults.get(at) ?? []), fault]);
  }
  return faults;
}

function refusedError({ status, text, mayBePublished }: Response, faults: readonly Fault[]): PublishError {
  const reasons = faults.map(({ message }) => message).join('; ');
  const message = `The server refused the event: ${reasons || `${status} ${text.slice(0, EXCERPT_CHARACTERS)}`}`;
  return new PublishError('refused', message, { status, faults, mayBePublished });
}

/** Returns the error for a response that applies to the whole request. */
function failureOf({ status, text, mayBePublished }: Response, storeId: string): PublishError {
  const [fault] = faultsIn(text, 0).get(undefined) ?? [];
  const reason = `${status} ${fault?.message ?? text.replaceAll(/\s+/g, ' ').slice(0, EXCERPT_CHARACTERS)}`;
  const message = `Nothing can be published to store ${storeId}: ${reason}`;
  if (status === 401 || status === 403) return new PublishError('unauthorized', message, { status, mayBePublished });
  if (status === 404) return new PublishError('no_store', message, { status, mayBePublished });
  const advice = 'check baseUrl, and proxies before the server';
  const isSuccess = status >= 200 && status < 300;
  return new PublishError('unexpected', `${message}; ${advice}`, {
    status,
    mayBePublished: mayBePublished || isSuccess,
  });
}

/** Sends events once, and settles those with a result. Returns the parts to send again, in order. */
async function sendPart(events: readonly QueuedEvent[], request: Request): Promise<(readonly QueuedEvent[])[]> {
  const response = await request(events);
  const published = response.status === 200 ? publishedIn(response.text, events.length) : undefined;
  if (published !== undefined) {
    for (const [index, event] of published.entries()) events[index]?.resolve(event);
    return [];
  }
  if (!EVENT_FAULTS.has(response.status)) throw failureOf(response, events[0]?.storeId ?? '');
  const faults = faultsIn(response.text, events.length);
  if (events.length === 1) throw refusedError(response, [...faults.values()].flat());
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
 * the events beside a refused one are sent again.
 */
export async function sendBatch(batch: readonly QueuedEvent[], request: Request): Promise<void> {
  const parts = [batch];
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    try {
      parts.unshift(...(await sendPart(part, request)));
    } catch (error) {
      for (const event of part) event.reject(error);
    }
  }
}
