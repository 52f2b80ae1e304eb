/**
 * Endpoints on loopback ports of a process of their own, which answer 204. It reads just enough of HTTP to find the end of
 * a request, because on two cores whatever it costs is taken from who is measured.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { answer } from './child.ts';

const HEAD_END = '\r\n\r\n';

let received = 0;
let connections = 0;
let wanted = Number.POSITIVE_INFINITY;
let onWanted = (): void => {};

const reply = (): string => `HTTP/1.1 204 No Content\r\ndate: ${date}\r\nconnection: keep-alive${HEAD_END}`;
let date = new Date().toUTCString();
setInterval(() => (date = new Date().toUTCString()), 1_000).unref();

const serve = (socket: Socket): void => {
  let held: Buffer = Buffer.alloc(0);
  connections += 1;
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    for (let end = held.indexOf(HEAD_END); end >= 0; end = held.indexOf(HEAD_END)) {
      const length = Number(/content-length: ([0-9]+)/i.exec(held.toString('latin1', 0, end))?.[1] ?? 0);
      const total = end + HEAD_END.length + length;
      if (held.length < total) return;
      held = held.subarray(total);
      socket.write(reply());
      received += 1;
      if (received === wanted) onWanted();
    }
  });
};

const handlers = {
  /** Opens that many ports; answers their origins. */
  listen: async (ports: number): Promise<string[]> =>
    Promise.all(
      Array.from({ length: ports }, async () => {
        const server = createServer(serve).listen(0, '127.0.0.1');
        await once(server, 'listening');
        return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      }),
    ),
  /** Counts anew; the answer comes when that many requests have arrived, and says how many connections were opened. */
  until: async (count: number): Promise<number> => {
    received = 0;
    connections = 0;
    wanted = count;
    await new Promise<void>((resolve) => (onWanted = resolve));
    return connections;
  },
};

export type ReceiverProcess = typeof handlers;
answer(handlers);
