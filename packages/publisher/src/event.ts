import { PublishError } from './error.ts';

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
