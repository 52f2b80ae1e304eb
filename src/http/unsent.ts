/** Limits responses that clients do not read: how long a connection may stall, and how many bytes all of them may have unsent. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';

export type UnsentLimits = {
  /** A connection that has something unsent is closed if its client reads nothing for this time. */
  unsentMs: number;
  /** Of all connections of the process together: before more is sent, those with the oldest responses are closed. */
  unsentBytesMax: number;
};

/** Smaller responses do not add up to the limit before their connections stall. */
const COUNTED_BYTES = 64 * 1024;

const sizeOf = (payload: unknown): number => (payload instanceof Uint8Array ? payload.length : 0);

/** Closes the oldest responses until `bytes` more are within the limit. */
function closeOldest(open: ReadonlySet<ServerResponse>, bytes: number, { unsentBytesMax }: UnsentLimits): void {
  let total = bytes;
  for (const response of open) total += response.writableLength;
  for (const response of open) {
    if (total <= unsentBytesMax) return;
    if (response.writableLength > 0) {
      total -= response.writableLength;
      response.destroy();
    }
  }
}

/** Applies the limits to all responses of the server. */
export function limitUnsent(app: FastifyInstance, limits: UnsentLimits): void {
  /** The oldest first. */
  const open = new Set<ServerResponse>();
  app.addHook('onRequest', async (_request, { raw }) => {
    open.add(raw);
    raw.once('close', () => open.delete(raw));
    // Node counts from the last byte that the client took. A response that is not ready has nothing unsent, and may take longer.
    raw.setTimeout(limits.unsentMs, () => {
      if (raw.writableLength > 0) raw.destroy();
    });
  });
  app.addHook('onSend', async (_request, _reply, payload) => {
    const bytes = sizeOf(payload);
    if (bytes >= COUNTED_BYTES) closeOldest(open, bytes, limits);
  });
}
