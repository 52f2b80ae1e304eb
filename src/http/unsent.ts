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

/** `bytes` of a response that is about to be written. Node writes the responses of a connection one after the other, and keeps the rest. */
type Open = { connection: Socket; bytes: number };

const sizeOf = (payload: unknown): number =>
  typeof payload === 'string' || payload instanceof Uint8Array ? payload.length : 0;

const unsentOf = (response: ServerResponse, { bytes }: Open): number =>
  response.headersSent ? response.writableLength : bytes;

/** Closes the connections of the oldest responses until the others are within the limit. */
function closeOldest(open: ReadonlyMap<ServerResponse, Open>, { unsentBytesMax }: UnsentLimits): void {
  const unsent = new Map<Socket, number>();
  for (const [response, one] of open) {
    const bytes = unsentOf(response, one);
    if (bytes > 0) unsent.set(one.connection, (unsent.get(one.connection) ?? 0) + bytes);
  }
  let total = unsent.values().reduce((sum, bytes) => sum + bytes, 0);
  for (const [connection, bytes] of unsent) {
    if (total <= unsentBytesMax) return;
    total -= bytes;
    connection.destroy();
  }
}

/** Applies the limits to all responses of the server. */
export function limitUnsent(app: FastifyInstance, limits: UnsentLimits): void {
  /** The oldest first. */
  const open = new Map<ServerResponse, Open>();
  let uncounted = 0;
  app.server.on('connection', (connection: Socket) => {
    // A response that waits for another one of its connection is not closed with it.
    connection.once('close', () => {
      for (const [response, one] of open) if (one.connection === connection) open.delete(response);
    });
  });
  app.addHook('onRequest', async ({ raw: { socket } }, { raw }) => {
    open.set(raw, { connection: socket, bytes: 0 });
    raw.once('close', () => open.delete(raw));
    // Node waits once more if the client took a byte meanwhile. A response that is not ready has nothing unsent, and may take longer.
    raw.setTimeout(limits.unsentMs, () => {
      if (raw.writableLength > 0) raw.destroy();
    });
  });
  app.addHook('onSend', async (_request, { raw }, payload) => {
    const bytes = sizeOf(payload);
    const one = open.get(raw);
    if (one !== undefined) one.bytes = bytes;
    uncounted += bytes;
    if (uncounted < COUNTED_EVERY_BYTES) return;
    uncounted = 0;
    closeOldest(open, limits);
  });
}
