/** Middleware for Express 4 and 5, and a listener for node:http: `app.post('/hook', receiveWebhooks({ keys }, onDelivery))`. */
import { receiveNodeRequest, type NodeRequest } from './node.ts';
import type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';

export type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';

type Request = NodeRequest['stream'] & {
  readonly method?: string | undefined;
  readonly headers: NodeRequest['headers'];
  /** Of `express.raw()`, and of platforms that keep the bytes beside the parsed body. */
  readonly body?: unknown;
  readonly rawBody?: unknown;
};
type Response = {
  statusCode: number;
  setHeader: (name: string, value: string) => unknown;
  end: (body?: string) => unknown;
};

const REMEDY =
  'Put app.post(…, receiveWebhooks(…)) above app.use(express.json()), or keep the bytes: ' +
  'express.json({ verify: (request, response, bytes) => { request.rawBody = bytes; } }).';

/** Returns a handler that verifies each request and hands its delivery to `onDelivery`. */
export function receiveWebhooks<Event extends { event: string; payload: unknown } = ReceivedEvent>(
  options: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): (request: Request, response: Response, next?: (error: unknown) => void) => void {
  return (request, response, next) => {
    const { method, headers } = request;
    const arrived = { method, headers, stream: request, parsed: request.rawBody ?? request.body };
    void receiveNodeRequest(arrived, REMEDY, options, onDelivery).then((answer) => {
      response.statusCode = answer.status;
      for (const [name, value] of Object.entries(answer.headers)) response.setHeader(name, value);
      response.end(answer.body);
    }, next);
  };
}
