/**
 * Endpoints on loopback ports of a process of their own, which answer 204. It reads just enough of HTTP to find the end of
 * a request, because on two cores whatever it costs is taken from who is measured.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { KeyPair } from '../../test/setup/authority.ts';
import { answer } from './child.ts';
import { monotonicMs } from './monotonic.ts';
import { quantile } from './table.ts';

const HEAD_END = '\r\n\r\n';

let received = 0;
let connections = 0;
let handshakes = { full: 0, resumed: 0 };
const sockets = new Set<Socket>();
let wanted = Number.POSITIVE_INFINITY;
let onWanted = (): void => {};
/** Delays of requests that have a due time; not searched for unless requested. */
let latenciesMs: number[] | undefined;

const reply = (): string => `HTTP/1.1 204 No Content\r\ndate: ${date}\r\nconnection: keep-alive${HEAD_END}`;
let date = new Date().toUTCString();
setInterval(() => (date = new Date().toUTCString()), 1_000).unref();

function time(latencies: number[], request: string): void {
  const [, at] = /"at":([0-9.]+)/.exec(request) ?? [];
  if (at !== undefined) latencies.push(monotonicMs() - Number(at));
}

function serve(socket: Socket): void {
  let held: Buffer = Buffer.alloc(0);
  connections += 1;
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    for (let end = held.indexOf(HEAD_END); end >= 0; end = held.indexOf(HEAD_END)) {
      const length = Number(/content-length: ([0-9]+)/i.exec(held.toString('latin1', 0, end))?.[1] ?? 0);
      const total = end + HEAD_END.length + length;
      if (held.length < total) return;
      if (latenciesMs !== undefined) time(latenciesMs, held.toString('latin1', end, total));
      held = held.subarray(total);
      socket.write(reply());
      received += 1;
      if (received === wanted) onWanted();
    }
  });
}

const serveTls = (pair: KeyPair): Server =>
  createTlsServer(pair, (socket) => {
    handshakes[socket.isSessionReused() ? 'resumed' : 'full'] += 1;
    serve(socket);
  });

async function reached(count: number): Promise<void> {
  if (received >= count) return;
  wanted = count;
  await new Promise<void>((resolve) => (onWanted = resolve));
}

/** `earlier` and `later`: of the half that came first, and of the other. */
export type Latency = { p50: number; p95: number; p99: number; earlierP95: number; laterP95: number };

const handlers = {
  /** Opens that many ports, with TLS where there is a key; answers their origins. */
  listen: async ({ ports, pair }: { ports: number; pair: KeyPair | undefined }): Promise<string[]> =>
    Promise.all(
      Array.from({ length: ports }, async () => {
        const server = (pair === undefined ? createServer(serve) : serveTls(pair)).listen(0, '127.0.0.1');
        await once(server, 'listening');
        const { port } = server.address() as AddressInfo;
        return `${pair === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
      }),
    ),
  /** Opens a port that takes requests and never answers; answers its origin. */
  hang: async (_: null): Promise<string> => {
    const server = createServer((socket) => socket.on('error', () => socket.destroy()).resume()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  },
  /** How many handshakes were made since this was asked last. */
  handshakes: async (_: null): Promise<typeof handshakes> => {
    const made = handshakes;
    handshakes = { full: 0, resumed: 0 };
    return made;
  },
  /** Ends all connections, as a restart of the endpoints would. */
  hangUp: async (_: null): Promise<void> => {
    for (const socket of sockets) socket.end();
    await Promise.all([...sockets].map((socket) => new Promise((closed) => socket.once('close', closed))));
  },
  /** Takes times from now on. */
  startTiming: async (_: null): Promise<void> => void (latenciesMs = []),
  /** How many requests were timed since `startTiming`. */
  timed: async (_: null): Promise<number> => latenciesMs?.length ?? 0,
  /** Takes no more times; answers how long it took from when each was due until it was here, in milliseconds. */
  stopTiming: async (_: null): Promise<Latency> => {
    const all = latenciesMs ?? [];
    latenciesMs = undefined;
    const half = Math.floor(all.length / 2);
    return {
      p50: quantile(all, 0.5),
      p95: quantile(all, 0.95),
      p99: quantile(all, 0.99),
      earlierP95: quantile(all.slice(0, half), 0.95),
      laterP95: quantile(all.slice(half), 0.95),
    };
  },
  /** Resets the counters; responds when that many requests have arrived, with the number of opened connections. */
  until: async (count: number): Promise<number> => {
    received = 0;
    connections = 0;
    await reached(count);
    return connections;
  },
  /** Responds when that many requests have arrived since `until` was asked. */
  untilTotal: (count: number): Promise<void> => reached(count),
};

export type ReceiverProcess = typeof handlers;
answer(handlers);
