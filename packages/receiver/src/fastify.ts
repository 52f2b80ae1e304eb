/** A plugin for Fastify 4 and 5: `app.register(receiveWebhooks({ keys }, onDelivery), { prefix: '/hook' })`. */
import { receiveNodeRequest, type NodeRequest } from './node.ts';
import type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';

export type { OnDelivery, ReceivedEvent, ReceiveOptions } from './receive.ts';

type Request = {
  readonly method: string;
  readonly headers: NodeRequest['headers'];
  readonly body: unknown;
  readonly raw: NodeRequest['stream'];
};
type Reply = {
  code: (status: number) => Reply;
  headers: (values: Record<string, string>) => Reply;
  send: (body?: string) => unknown;
};
type Parser = (request: unknown, payload: unknown, done: (error: null, body: unknown) => void) => void;
type Instance = {
  removeAllContentTypeParsers: () => unknown;
  addContentTypeParser: (type: string, parser: Parser) => unknown;
  post: (path: string, handler: Handler) => unknown;
  options: (path: string, handler: Handler) => unknown;
};
type Handler = (request: Request, reply: Reply) => Promise<unknown>;

const REMEDY = 'No preParsing hook may read the payload of this path.';

/**
 * Returns a plugin whose route POST `/` verifies each request and hands its delivery to `onDelivery`; with `allowedOrigin`, its route
 * OPTIONS `/` responds to the handshake.
 */
export function receiveWebhooks<Event extends { event: string; payload: unknown } = ReceivedEvent>(
  options: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): (instance: Instance) => Promise<void> {
  return async (instance) => {
    // The plugin has parsers of its own, so the rest of the app goes on to have its JSON parsed.
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    const handle: Handler = async (request, reply) => {
      const stream = (request.body ?? request.raw) as NodeRequest['stream'];
      const arrived = { method: request.method, headers: request.headers, stream };
      const { status, headers, body } = await receiveNodeRequest(arrived, REMEDY, options, onDelivery);
      return reply.code(status).headers(headers).send(body);
    };
    instance.post('/', handle);
    if (options.allowedOrigin !== undefined) instance.options('/', handle);
  };
}
