/** The limit of request bodies that have not arrived whole: clients that send a part and wait must not exhaust the memory. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';

/**
 * Applies the limit to all requests of the server together: beyond `arrivingBytesMax` the connections of the oldest requests are reset
 * until the others are within it. A client that sends at a usual rate is never among the oldest for long.
 */
export function limitArriving(app: FastifyInstance, { arrivingBytesMax }: { arrivingBytesMax: number }): void {
  /** Bytes of each body so far, the oldest request first. */
  const arriving = new Map<IncomingMessage, number>();
  let total = 0;
  const leaveOut = (request: IncomingMessage): void => {
    total -= arriving.get(request) ?? 0;
    arriving.delete(request);
  };
  const count = (request: IncomingMessage, bytes: number): void => {
    const before = arriving.get(request);
    // What a reset connection had received before.
    if (before === undefined) return;
    arriving.set(request, before + bytes);
    total += bytes;
    for (const [oldest] of arriving) {
      if (total <= arrivingBytesMax) return;
      leaveOut(oldest);
      oldest.socket.resetAndDestroy();
    }
  };
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const { raw } = request;
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers;
    // A request of this process to itself (raw-endpoint.ts) has its body in memory already.
    if ((length !== '0' || encoding !== undefined) && 'resetAndDestroy' in raw.socket) {
      arriving.set(raw, 0);
      // A listener starts the stream, and the parser of the body reads it later.
      raw.on('data', (chunk: Buffer) => count(raw, chunk.length)).pause();
      raw.once('end', () => leaveOut(raw));
      raw.once('close', () => leaveOut(raw));
    }
    done(null, payload);
  });
}
