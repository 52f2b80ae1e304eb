/** Middleware for Hono: `app.post('/hook', receiveWebhooks({ keys }, onDelivery))`. */
import type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';
import { receiveRequest } from './web.ts';

export type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';

const REMEDY = 'Call no context.req.json(), text() or parseBody() for this path, in middleware too.';

/** Returns a handler that verifies each request and hands its delivery to `onDelivery`. */
export function receiveWebhooks<Event extends { event: string; payload: unknown } = ReceivedEvent>(
  options: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): (context: { req: { raw: Request } }) => Promise<Response> {
  return (context) => receiveRequest(context.req.raw, REMEDY, options, onDelivery);
}
