/** Middleware for frameworks that have the Request and the Response of the fetch standard. */
import { WebhookError } from './error.ts';
import { answerTo, readBody, type OnDelivery, type ReceiveOptions } from './receive.ts';

async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // Without effect at the end of the stream.
    await reader.cancel();
  }
}

/** Receives one request. `remedy` is for the developer: how to keep other code from reading the body before. */
export async function receiveRequest<Event extends { event: string; payload: unknown }>(
  request: Request,
  remedy: string,
  options: ReceiveOptions,
  onDelivery: OnDelivery<Event>,
): Promise<Response> {
  const read = async () => {
    if (request.bodyUsed) throw new WebhookError('not_raw', `The body was read before it was verified. ${remedy}`);
    return request.body === null ? new Uint8Array() : readBody(chunksOf(request.body), options);
  };
  const { body, ...head } = await answerTo(
    { method: request.method, headers: request.headers, read },
    options,
    onDelivery,
  );
  return new Response(body ?? null, head);
}
