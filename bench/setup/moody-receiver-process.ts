/**
 * Many endpoints in one process, of which some hang or refuse connections on request: one port on all of 127/8, an
 * address each, and one port more for those that refuse.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { answer } from './child.ts';
import { monotonicMs } from './monotonic.ts';

const HEAD_END = '\r\n\r\n';
const REPLY = `HTTP/1.1 204 No Content\r\nconnection: keep-alive${HEAD_END}`;
const SENT_AT = /"at":([0-9.]+)/;
const NONE = { from: 0, to: 0 };

type Range = { from: number; to: number };

/** Endpoint `index` has an address of its own, so it is an origin of its own. */
const addressOf = (index: number): string => `127.1.${index >> 8}.${index & 255}`;
function indexOf(address: string): number {
  const [, , high = 0, low = 0] = address.split('.').map(Number);
  return high * 256 + low;
}

let hanging: Range = NONE;
let measured: Range = NONE;
const held = new Set<Socket>();
const refusing = new Set<Socket>();
let latencies: number[] = [];

const isIn = ({ from, to }: Range, index: number): boolean => index >= from && index < to;

function serve(socket: Socket): void {
  const index = indexOf(socket.localAddress ?? '');
  let bytes: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.once('close', () => held.delete(socket));
  socket.on('data', (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    for (let end = bytes.indexOf(HEAD_END); end >= 0; end = bytes.indexOf(HEAD_END)) {
      const length = Number(/content-length: ([0-9]+)/i.exec(bytes.toString('latin1', 0, end))?.[1] ?? 0);
      const total = end + HEAD_END.length + length;
      if (bytes.length < total) return;
      const sentAt = SENT_AT.exec(bytes.toString('latin1', end, total))?.[1];
      bytes = bytes.subarray(total);
      if (isIn(measured, index)) latencies.push(monotonicMs() - Number(sentAt));
      if (isIn(hanging, index)) held.add(socket);
      else socket.write(REPLY);
    }
  });
}

const server = createServer(serve);
const refuser = createServer((socket) => {
  refusing.add(socket);
  socket.once('close', () => refusing.delete(socket));
  serve(socket);
});
let refuserPort = 0;

async function listen(one: typeof server, port: number): Promise<number> {
  one.listen({ host: '0.0.0.0', port, backlog: 4_096 });
  await once(one, 'listening');
  return (one.address() as AddressInfo).port;
}

const handlers = {
  /** Opens endpoints; the first `refusing` of them can refuse. Answers their origins. */
  listen: async (given: { endpoints: number; refusing: number }): Promise<string[]> => {
    const port = await listen(server, 0);
    refuserPort = await listen(refuser, 0);
    return Array.from(
      { length: given.endpoints },
      (_, index) => `http://${addressOf(index)}:${index < given.refusing ? refuserPort : port}`,
    );
  },
  /** Who hangs from now on, and whether those that can refuse do. What hung and does no longer is answered. */
  mood: async (given: { hanging: Range; refuses: boolean }): Promise<void> => {
    ({ hanging } = given);
    const answered = [...held].filter(({ localAddress }) => !isIn(hanging, indexOf(localAddress ?? '')));
    for (const socket of answered) {
      held.delete(socket);
      socket.write(REPLY);
    }
    if (given.refuses && refuser.listening) {
      refuser.close();
      for (const socket of refusing) socket.destroy();
    } else if (!given.refuses && !refuser.listening) await listen(refuser, refuserPort);
  },
  /** Restarts the measurement of the endpoints in the range. */
  measure: async (range: Range): Promise<void> => {
    measured = range;
    latencies = [];
  },
  /** Milliseconds from publish to arrival, of all that were measured. */
  latencies: async (_: null): Promise<number[]> => latencies,
  /** How many requests hang. */
  held: async (_: null): Promise<number> => held.size,
};

export type MoodyReceiverProcess = typeof handlers;
answer(handlers);
