/** A real name server on loopback (RFC 1035 §4): keeps what it was asked, says what the test says, or nothing. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';
import { after } from 'node:test';
import { createResolver, type Resolve, type ResolverDeps, type ResolverSettings } from '#delivery/exchange/resolver.ts';
import { systemClock } from '#kernel/clock.ts';

const codes = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
const types = { A: 1, AAAA: 28 };
type Type = keyof typeof types;

/** `null`: silence. Addresses of the other family are left out. */
export type Said = {
  code?: keyof typeof codes;
  addresses?: readonly string[];
  ttlSeconds?: number;
  afterMs?: number;
} | null;

export type NameServer = {
  /** For the resolver. */
  address: string;
  /** Such as `A good.example.com`, each packet. */
  asked: string[];
  say: (say: (name: string, type: Type) => Said) => void;
};

const HEADER_BYTES = 12;
/** An answer, recursion available; the question is the first of one. */
const FLAGS = 0x8180;
/** The name stands in the question. */
const POINTER = 0xc00c;

const nameAt = (packet: Buffer): { name: string; end: number } => {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = packet[at] ?? 0; length > 0; length = packet[at] ?? 0) {
    labels.push(packet.toString('ascii', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.'), end: at + 1 };
};

const bytesOf = (address: string): Buffer => {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const groups = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return Buffer.from(groups.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]));
};

const recordOf = (address: string, type: Type, ttlSeconds: number): Buffer => {
  const data = bytesOf(address);
  const head = Buffer.alloc(12);
  head.writeUInt16BE(POINTER, 0);
  head.writeUInt16BE(types[type], 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt32BE(ttlSeconds, 6);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
};

/** Ends with the file. */
export const startNameServer = async (): Promise<NameServer> => {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
  const asked: string[] = [];
  let say: (name: string, type: Type) => Said = () => null;
  socket.on('message', (packet, { port, address }) => {
    const { name, end } = nameAt(packet);
    const type: Type = packet.readUInt16BE(end) === types.A ? 'A' : 'AAAA';
    asked.push(`${type} ${name}`);
    const said = say(name, type);
    if (said === null) return;
    const { code = 'NOERROR', addresses = [], ttlSeconds = 60, afterMs } = said;
    const records = addresses
      .filter((one) => isIPv4(one) === (type === 'A'))
      .map((one) => recordOf(one, type, ttlSeconds));
    const head = Buffer.alloc(HEADER_BYTES);
    packet.copy(head, 0, 0, 2);
    head.writeUInt16BE(FLAGS + codes[code], 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(records.length, 6);
    const answer = Buffer.concat([head, packet.subarray(HEADER_BYTES, end + 4), ...records]);
    if (afterMs === undefined) socket.send(answer, port, address);
    else setTimeout(() => socket.send(answer, port, address), afterMs).unref();
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  after(() => void socket.close());
  return { address: `127.0.0.1:${socket.address().port}`, asked, say: (next) => void (say = next) };
};

const settings: ResolverSettings = {
  lookupTimeoutMs: 5_000,
  lookupsAtOnce: 1_000,
  lookupKeptMs: 30_000,
  failedLookupKeptMs: 10_000,
  addressesKept: 1_000,
};

/** One that asks these servers, or nobody: its own names it knows all the same. */
export const resolverOf = (
  server: { address: string } = { address: '127.0.0.1:1' },
  own: Partial<ResolverSettings> = {},
  deps: Partial<Pick<ResolverDeps, 'clock' | 'hostsFile'>> = {},
): Resolve =>
  createResolver({ clock: systemClock, ...deps, servers: [server.address], settings: { ...settings, ...own } });
