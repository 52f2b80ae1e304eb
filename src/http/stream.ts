/** Sends server-sent events (WHATWG HTML, "Server-sent events"). */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Representation } from './negotiate.ts';
import type { EventStream } from './operation.ts';
import { privateHeaders } from './reply.ts';

/** Proxies must neither store nor buffer the stream; nginx buffers it without `X-Accel-Buffering`. */
const headers = { ...privateHeaders, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' } as const;

export function sendStream(
  reply: FastifyReply,
  request: FastifyRequest,
  { mediaType }: Representation,
  { open }: EventStream,
) {
  const stream = request.method === 'HEAD' ? undefined : open();
  return reply.headers({ ...headers, 'Content-Type': mediaType }).send(stream);
}
