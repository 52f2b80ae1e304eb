/**
 * Route handlers for Next: `export const POST = receiveWebhooks({ keys }, onDelivery)` in `app/hook/route.ts`; for the
 * handshake, `export const OPTIONS = POST` too.
 */
import type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';
import { receiveRequest } from './web.ts';

export type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';

const REMEDY = 'Call no request.json() or text() before, or read request.clone() instead.';

/** Returns a route handler that verifies each request and hands its delivery to `onDelivery`. */
export function receiveWebhooks<Event extends { event: string; payload: unknown } = ReceivedEvent>(
  options: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): (request: Request) => Promise<Response> {
  return (request) => receiveRequest(request, REMEDY, options, onDelivery);
}
