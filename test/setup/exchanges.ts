/** Exchanges over real sockets: connections with the settings of a test, and servers that send arbitrary bytes. */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { after } from 'node:test';
import { Connections, type ConnectionSettings } from '#delivery/attempt/http/endpoint-connections.ts';
import { startExchange, type Exchange, type ExchangeLimits } from '#delivery/attempt/attempt.ts';
import type { Guard } from '#runtime/runtime.ts';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import { systemClock, type Clock } from '#core/clock.ts';
import { resolverOf } from './name-server.ts';

const connectionSettings: ConnectionSettings = {
  connectTimeoutMs: 5_000,
  idleSockets: 100,
  idleSocketMs: 20_000,
  connectionAgeMs: 300_000,
  tlsSessions: 100,
};
export const limits: ExchangeLimits = {
  exchangeTimeoutMs: 5_000,
  answerReadBytes: 64 * 1024,
  answerKeptBytes: 16 * 1024,
};

export const loopback = createGuard({ allowed: ['127.0.0.0/8', '::1'] }, resolverOf());

export type Fixture = {
  connections: Connections;
  send: (url: string, own?: Partial<ExchangeLimits>, body?: Uint8Array, mayBegin?: () => boolean) => Exchange;
};

/** Opens connections with these settings, closed at the end of the file. */
export function openFixture(
  own: Partial<ConnectionSettings> = {},
  { guard = loopback, clock = systemClock }: { guard?: Guard; clock?: Clock } = {},
): Fixture {
  const connections = new Connections({ guard, clock }, { ...connectionSettings, ...own });
  after(() => connections.stop());
  return {
    connections,
    send: (url, ownLimits = {}, body = Buffer.from('hello'), mayBegin = () => true) => {
      const { origin } = new URL(url);
      const request = { path: '/hook?x=1', headers: ['content-type', 'text/plain'], body, mayBegin };
      return startExchange(origin, request, { connections, clock, limits: { ...limits, ...ownLimits } });
    },
  };
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

export type RawServer = { url: string; port: number; sockets: Socket[]; server: Server };

/** Starts a server that calls the handler with every connection; sockets are destroyed at the end of the file. */
export async function rawServer(
  onConnection: (socket: Socket, n: number) => void,
  at = 0,
  host = '127.0.0.1',
): Promise<RawServer> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => {});
    sockets.push(socket);
    onConnection(socket, sockets.length);
  }).listen(at, host);
  await once(server, 'listening');
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const port = portOf(server);
  return { url: `http://${host}:${port}`, port, sockets, server };
}

export const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
