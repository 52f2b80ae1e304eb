/**
 * What the middleware of every framework shares: verifies a request, calls the application, and makes the response. `node.ts` and
 * `web.ts` read the body.
 */
import { joined, type Bytes } from './bytes.ts';
import { WebhookError } from './error.ts';
import { handshakeHeaders, verifyDelivery, type Arrival, type Delivery } from './receiver.ts';
import type { Payloads, WebhookEvent } from './payloads.ts';

export type ReceiveOptions = Pick<Arrival, 'keys' | 'headerPrefix' | 'toleranceSeconds' | 'now'> & {
  /** The maximum length of a body; default 4 MiB. A longer body is answered with 413. */
  bodyBytes?: number | undefined;
  /** The host name of the service that may send, or `*`: OPTIONS requests that ask for permission get it. By default none do. */
  allowedOrigin?: string | undefined;
  /** Called with each `WebhookError` of a rejected request, and with what `onDelivery` throws; default `console.error`. */
  onError?: ((error: unknown) => void) | undefined;
};

/** Refeeds and test deliveries of a resource, which have the bodies of its events. */
type Repeated = {
  [
    // Bodies with an id alone have no further members.
    Event in keyof Payloads as string extends keyof Payloads[Event]
      ? Event extends `${infer Resource}/${string}`
        ? `${Resource}/refeed` | `${Resource}/test`
        : never
      : never
  ]: Payloads[Event];
};
type RepeatedEvent = { [Event in keyof Repeated]: { event: Event; payload: Repeated[Event] } }[keyof Repeated];

/** An event with its body, which is `undefined` if it is not JSON: `format` of the webhook decides that. */
export type ReceivedEvent = WebhookEvent | RepeatedEvent;

/** Processes a verified delivery. The response is 204 when it returns, and 500 if it throws, so that Halcyon sends the delivery again. */
export type OnDelivery<Event extends { event: string; payload: unknown } = ReceivedEvent> = (
  delivery: Delivery & Event,
) => unknown;

/** `body` is JSON, or undefined. */
export type Answer = { status: number; headers: Record<string, string>; body: string | undefined };

const BODY_BYTES = 4 * 1024 * 1024;
/** A sender that is cut off while it sends does not see the response, so some of a body that is too long is read and dropped. */
const DROPPED_BODIES = 16;

/** Returns the whole body. Throws a `WebhookError` if it is longer than the limit, is incomplete, or does not consist of bytes. */
export async function readBody(
  chunks: AsyncIterable<unknown>,
  { bodyBytes: limitBytes = BODY_BYTES }: Pick<ReceiveOptions, 'bodyBytes'>,
): Promise<Bytes> {
  const kept: Bytes[] = [];
  let bytes = 0;
  try {
    for await (const chunk of chunks) {
      if (!ArrayBuffer.isView(chunk)) throw new WebhookError('not_raw', 'The body was decoded: remove setEncoding().');
      bytes += chunk.byteLength;
      if (bytes > limitBytes * DROPPED_BODIES) break;
      if (bytes <= limitBytes) kept.push(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength).slice());
    }
  } catch (error) {
    if (error instanceof WebhookError) throw error;
    throw new WebhookError('incomplete', 'The connection was closed before the whole body had arrived.');
  }
  if (bytes > limitBytes) throw tooLarge(limitBytes);
  return joined(...kept);
}

function tooLarge(limitBytes: number): WebhookError {
  return new WebhookError(
    'too_large',
    `The body has more than ${limitBytes} bytes, the limit bodyBytes of this receiver.`,
  );
}

/** Checks a body that the framework has read. */
export function checkLength(bytes: number, { bodyBytes: limitBytes = BODY_BYTES }: ReceiveOptions): void {
  if (bytes > limitBytes) throw tooLarge(limitBytes);
}

/** Returns the response to a request that asks for permission to send; undefined for other methods than OPTIONS. */
function handshakeAnswer(
  { method, headers }: { method: string | undefined; headers: Arrival['headers'] },
  { allowedOrigin }: Pick<ReceiveOptions, 'allowedOrigin'>,
): Answer | undefined {
  if (method !== 'OPTIONS') return undefined;
  const allowed = handshakeHeaders({ headers, allowedOrigin });
  return { status: allowed === undefined ? 405 : 204, headers: allowed ?? { Allow: 'POST' }, body: undefined };
}

const isJson = (contentType: string): boolean => /[/+]json\b/i.test(contentType);

const refusal = (status: number, error: string, message: string): Answer => ({
  status,
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ error, message }),
});

/** Reads and verifies a request, calls `onDelivery`, and returns the response. Throws only what `onError` throws. */
export async function answerTo<Event extends { event: string; payload: unknown }>(
  request: { method: string | undefined; headers: Arrival['headers']; read: () => Promise<Arrival['body']> },
  { bodyBytes: _limit, allowedOrigin, onError = (error) => console.error(error), ...options }: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): Promise<Answer> {
  const permission = handshakeAnswer(request, { allowedOrigin });
  if (permission !== undefined) return permission;
  let delivery: Delivery | undefined;
  try {
    delivery = await verifyDelivery({ ...options, headers: request.headers, body: await request.read() });
    const payload = isJson(delivery.contentType) ? delivery.json() : undefined;
    // The types of event and body belong together by contract with the server, which no check here proves.
    await onDelivery({ ...delivery, payload } as unknown as Delivery & Event);
    return { status: 204, headers: {}, body: undefined };
  } catch (error) {
    onError(error);
    if (delivery === undefined && error instanceof WebhookError)
      return refusal(error.status, error.code, error.message);
    // Without the message: it may have secrets of the application, and Halcyon shows responses to all members of the store.
    return refusal(500, 'failed', 'The application could not process the delivery.');
  }
}
