/**
 * Hostile, tame and measured receivers in a process of their own: one plain port on all of 127/8, where the address selects the
 * receiver (`addressOf`), a port for each way in which TLS fails, and a proxy that must not be used.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setPriority } from 'node:os';
import { createServer as createTlsServer } from 'node:tls';
import type { KeyPair } from '../../setup/authority.ts';
import { KINDS, NAMES } from './kinds.ts';

export type Given = { stranger: KeyPair; expired: KeyPair; isHostile: boolean };
export type Ports = { plain: number; stranger: number; expired: number; deaf: number; proxy: number };
/** In milliseconds from publishing to arrival, since the last query; and how often the proxy was used. */
export type Seen = { latenciesMs: number[]; proxied: number };

/** CLOCK_MONOTONIC, the same in all processes of this machine. */
const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

const HEAD_END = '\r\n\r\n';
const TAKEN = `HTTP/1.1 204 No Content${HEAD_END}`;
const LOW_PRIORITY = 10;

let latenciesMs: number[] = [];
let proxied = 0;

/** Calls `onBody` with the body of each complete request. */
function onRequests(socket: Socket, take: (body: string) => void): void {
  let got: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true).on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    got = got.length === 0 ? chunk : Buffer.concat([got, chunk]);
    for (let end = got.indexOf(HEAD_END); end >= 0; end = got.indexOf(HEAD_END)) {
      const length = Number(/content-length: ([0-9]+)/i.exec(got.toString('latin1', 0, end))?.[1] ?? 0);
      const total = end + HEAD_END.length + length;
      if (got.length < total) return;
      const body = got.toString('utf8', end + HEAD_END.length, total);
      got = got.subarray(total);
      take(body);
    }
  });
}

function servePlain(socket: Socket): void {
  const [, who = '', kind = ''] = (socket.localAddress ?? '').split('.');
  onRequests(socket, (body) => {
    if (who === '10') return KINDS[NAMES[Number(kind)] ?? '']?.answer(socket);
    if (who === '30') latenciesMs.push(monotonicMs() - (JSON.parse(body) as { at: number }).at);
    socket.write(TAKEN);
  });
}

async function listen(server: Server): Promise<number> {
  server.listen({ host: '0.0.0.0', port: 0, backlog: 1_024 });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function withTls(pair: KeyPair): Server {
  const server = createTlsServer(pair, (socket) => onRequests(socket, () => socket.write(TAKEN)));
  return server.on('tlsClientError', () => {});
}

const open = async ({ stranger, expired }: Given): Promise<Ports> => ({
  plain: await listen(createServer({ allowHalfOpen: true }, servePlain)),
  stranger: await listen(withTls(stranger)),
  expired: await listen(withTls(expired)),
  deaf: await listen(createServer((socket) => void socket.on('error', () => {}).resume())),
  proxy: await listen(
    createServer((socket) => {
      proxied += 1;
      socket.destroy();
    }),
  ),
});

process.on('message', (asked: Given | 'seen') => {
  if (asked === 'seen') {
    process.send?.({ latenciesMs, proxied } satisfies Seen);
    latenciesMs = [];
    return;
  }
  // They stand for other machines: their processor time must not be taken from the worker.
  if (asked.isHostile) setPriority(LOW_PRIORITY);
  void open(asked).then((ports) => process.send?.(ports));
});
process.once('disconnect', () => process.exit());
