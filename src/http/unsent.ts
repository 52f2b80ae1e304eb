/** Limits responses that clients do not read: how long a connection may stall, and how many bytes all of them may have unsent. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

export type UnsentLimits = {
  /** A connection that has something unsent is closed if its client reads nothing for this time, at the latest after twice as long. */
  unsentMs: number;
  /** Of all connections of the process together: before more is sent, those with the oldest responses are closed. */
  unsentBytesMax: number;
};

/** All connections are counted when this much was sent since the last time: a client can send a thousand requests at once. */
const COUNTED_EVERY_BYTES = 64 * 1024;

/** The responses that have not ended, with the bytes of those that are about to be written. */
type OpenResponses = Map<ServerResponse, number>;

const sizeOf = (payload: unknown): number =>
  typeof payload === 'string' || payload instanceof Uint8Array ? payload.length : 0;

function unsentOf(responses: OpenResponses): number {
  let total = 0;
  for (const [response, bytes] of responses) total += response.headersSent ? response.writableLength : bytes;
  return total;
}

/** Closes connections, the oldest first, until the others are within the limit. */
function closeOldest(connections: ReadonlyMap<Socket, OpenResponses>, { unsentBytesMax }: UnsentLimits): void {
  const unsent = [...connections].map(([connection, responses]) => ({ connection, bytes: unsentOf(responses) }));
  let total = unsent.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { connection, bytes } of unsent) {
    if (total <= unsentBytesMax) return;
    if (bytes > 0) connection.destroy();
    total -= bytes;
  }
}

/** Applies the limits to all responses of the server. What a stream sends does not start a count, and is counted. */
export function limitUnsent(app: FastifyInstance, limits: UnsentLimits): void {
  const connections = new Map<Socket, OpenResponses>();
  let uncounted = 0;
  // A response that waits for another one of its connection is not closed with it.
  app.server.on('connection', (connection: Socket) => connection.once('close', () => connections.delete(connection)));
  app.addHook('onRequest', async ({ raw: { socket } }, { raw }) => {
    const responses = connections.get(socket) ?? new Map<ServerResponse, number>();
    connections.set(socket, responses.set(raw, 0));
    raw.once('close', () => {
      responses.delete(raw);
      if (responses.size === 0) connections.delete(socket);
    });
    // Node waits once more if the client took a byte meanwhile. A response that is not ready has nothing unsent, and may take longer.
    raw.setTimeout(limits.unsentMs, () => {
      if (raw.writableLength > 0) raw.destroy();
    });
  });
  app.addHook('onSend', async ({ raw: { socket } }, { raw }, payload) => {
    const bytes = sizeOf(payload);
    connections.get(socket)?.set(raw, bytes);
    uncounted += bytes;
    if (uncounted < COUNTED_EVERY_BYTES) return;
    uncounted = 0;
    closeOldest(connections, limits);
  });
}
