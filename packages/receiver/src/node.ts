/** Middleware for frameworks that have the requests of node:http. The types have only what is used, so that none of Node are needed. */
import { WebhookError } from './error.ts';
import { answerTo, checkLength, readBody, type Answer, type OnDelivery, type ReceiveOptions } from './receive.ts';

type NodeHeaders = { readonly [name: string]: string | readonly string[] | undefined };
/** The body as a stream. */
type NodeStream = AsyncIterable<unknown> & { readonly readableDidRead?: boolean };

const TOO_LARGE = 413;

export type NodeRequest = {
  method: string | undefined;
  headers: NodeHeaders;
  stream: NodeStream;
  /** What a parser has made of the body. */
  parsed?: unknown;
};

/** Receives one request. `remedy` is for the developer: how to keep parsers from reading the body before. */
export async function receiveNodeRequest<Event extends { event: string; payload: unknown }>(
  { method, headers, stream, parsed }: NodeRequest,
  remedy: string,
  options: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): Promise<Answer> {
  const read = async () => {
    if (ArrayBuffer.isView(parsed)) {
      checkLength(parsed.byteLength, options);
      return new Uint8Array(parsed.buffer, parsed.byteOffset, parsed.byteLength);
    }
    if (stream.readableDidRead === true)
      throw new WebhookError('not_raw', `The body was parsed before it was verified. ${remedy}`);
    return readBody(stream, options);
  };
  const answer = await answerTo({ method, headers, read }, options, onDelivery);
  // The rest of the body may be unread, and node:http would go on to wait for its end.
  return answer.status === TOO_LARGE ? { ...answer, headers: { ...answer.headers, Connection: 'close' } } : answer;
}
