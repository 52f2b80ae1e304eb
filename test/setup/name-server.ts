/** A real name server on loopback (RFC 1035 §4): records queries and returns the answers of the test, or none. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, isIPv4, type AddressInfo } from 'node:net';
import { after } from 'node:test';
import {
  createResolver,
  type Resolve,
  type ResolverDeps,
  type ResolverSettings,
} from '#delivery/attempt/http/resolver.ts';
import { systemClock } from '#core/clock.ts';

const codes = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
const types = { A: 1, CNAME: 5, AAAA: 28 };
type Type = 'A' | 'AAAA';

/** `null`: no response. Addresses of the other family are omitted. */
export type Said = {
  code?: keyof typeof codes;
  addresses?: readonly string[];
  /** A chain of CNAMEs; the last one has the addresses. */
  aliases?: readonly string[];
  ttlSeconds?: number;
  afterMs?: number;
  /** The response waits for it. */
  after?: Promise<unknown>;
  /** Responses over UDP are truncated (RFC 1035 §4.2.1), so that the resolver repeats the query over TCP. */
  isTruncated?: boolean;
} | null;

export type NameServer = {
  /** The address for the resolver. */
  address: string;
  /** Each query, such as `A good.example.com`, or `TCP A good.example.com` over TCP; a repeated packet is no other query. */
  asked: string[];
  say: (say: (name: string, type: Type) => Said) => void;
};

const HEADER_BYTES = 12;
/** Returns a response with recursion available and the given question. */
const FLAGS = 0x8180;
const TRUNCATED = 0x0200;

function nameAt(packet: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = packet[at] ?? 0; length > 0; length = packet[at] ?? 0) {
    labels.push(packet.toString('ascii', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.'), end: at + 1 };
}

function bytesOf(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const groups = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return Buffer.from(groups.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]));
}

/** Encodes a name without compression. */
const labelsOf = (name: string): Buffer =>
  Buffer.concat([
    ...name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label, 'ascii')])),
    Buffer.of(0),
  ]);

function recordOf(name: string, type: keyof typeof types, data: Buffer, ttlSeconds: number): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(types[type], 0);
  head.writeUInt16BE(1, 2);
  head.writeUInt32BE(ttlSeconds, 4);
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([labelsOf(name), head, data]);
}

function recordsOf(name: string, type: Type, said: NonNullable<Said>): Buffer[] {
  const { addresses = [], aliases = [], ttlSeconds = 60 } = said;
  const names = [name, ...aliases];
  const last = names.at(-1) ?? name;
  return [
    ...aliases.map((alias, at) => recordOf(names[at] ?? name, 'CNAME', labelsOf(alias), ttlSeconds)),
    ...addresses
      .filter((one) => isIPv4(one) === (type === 'A'))
      .map((one) => recordOf(last, type, bytesOf(one), ttlSeconds)),
  ];
}

/** Returns the response to a packet; undefined for none. */
type Answering = (packet: Buffer, by: 'UDP' | 'TCP') => { answer: Buffer; said: NonNullable<Said> } | undefined;

/**
 * c-ares sends a packet again, from another port, if there is no answer for two seconds, which happens if the machine pauses. One
 * of 65,536 other queries has the same id, but not after so long.
 */
const REPEATED_AFTER_MS = 1_500;

function answering(asked: string[], say: (name: string, type: Type) => Said): Answering {
  const answered = new Map<string, { said: Said; atMs: number }>();
  const find = (query: string, id: number, ask: () => Said): Said => {
    const atMs = performance.now();
    const earlier = answered.get(`${query} ${id}`);
    if (earlier !== undefined && atMs - earlier.atMs > REPEATED_AFTER_MS) return earlier.said;
    asked.push(query);
    const said = ask();
    answered.set(`${query} ${id}`, { said, atMs });
    return said;
  };
  return (packet, by) => {
    const { name, end } = nameAt(packet);
    const type: Type = packet.readUInt16BE(end) === types.A ? 'A' : 'AAAA';
    const query = `${by === 'TCP' ? 'TCP ' : ''}${type} ${name}`;
    const said = find(query, packet.readUInt16BE(0), () => say(name, type));
    if (said === null) return undefined;
    const isTruncated = said.isTruncated === true && by === 'UDP';
    const records = isTruncated ? [] : recordsOf(name, type, said);
    const head = Buffer.alloc(HEADER_BYTES);
    packet.copy(head, 0, 0, 2);
    head.writeUInt16BE(FLAGS + (isTruncated ? TRUNCATED : 0) + codes[said.code ?? 'NOERROR'], 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(records.length, 6);
    const answer = Buffer.concat([head, packet.subarray(HEADER_BYTES, end + 4), ...records]);
    return { answer, said };
  };
}

/** A message is preceded by its length (RFC 1035 §4.2.2). */
const LENGTH_BYTES = 2;

/** Starts the TCP server and returns its port; closed at the end of the file. Without `answerTo` it resets all connections. */
async function listenForTcp(answerTo: Answering | undefined): Promise<number> {
  const server = createServer((socket) => {
    if (answerTo === undefined) return void socket.resetAndDestroy();
    let got = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      got = Buffer.concat([got, chunk]);
      while (got.length >= LENGTH_BYTES && got.length >= LENGTH_BYTES + got.readUInt16BE(0)) {
        const end = LENGTH_BYTES + got.readUInt16BE(0);
        const said = answerTo(got.subarray(LENGTH_BYTES, end), 'TCP');
        got = got.subarray(end);
        if (said === undefined) continue;
        const length = Buffer.alloc(LENGTH_BYTES);
        length.writeUInt16BE(said.answer.length, 0);
        socket.write(Buffer.concat([length, said.answer]));
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Returns whether the port could be bound: another process may use it for UDP. */
const bound = (socket: Socket, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    socket.once('error', () => resolve(false)).once('listening', () => resolve(true));
    socket.bind(port, '127.0.0.1');
  });

/**
 * Starts a name server, closed at the end of the file. Without `overTcp` it holds its TCP port all the same, and refuses: otherwise a
 * name server of another process could listen there, and a connection to a free port of loopback can be one to itself.
 */
export async function startNameServer({ overTcp = false } = {}): Promise<NameServer> {
  const asked: string[] = [];
  let say: (name: string, type: Type) => Said = () => null;
  const answerTo = answering(asked, (name, type) => say(name, type));
  let socket: Socket;
  do socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
  while (!(await bound(socket, await listenForTcp(overTcp ? answerTo : undefined))));
  const delayed = new Set<NodeJS.Timeout>();
  let isOpen = true;
  socket.on('message', (packet, { port, address }) => {
    const found = answerTo(packet, 'UDP');
    if (found === undefined) return;
    const { answer, said } = found;
    const send = () => isOpen && socket.send(answer, port, address);
    if (said.after !== undefined) void said.after.then(send);
    else if (said.afterMs === undefined) send();
    else delayed.add(setTimeout(send, said.afterMs).unref());
  });
  after(() => {
    isOpen = false;
    for (const timer of delayed) clearTimeout(timer);
    socket.close();
  });
  return { address: `127.0.0.1:${socket.address().port}`, asked, say: (next) => void (say = next) };
}

const settings: ResolverSettings = {
  lookupTimeoutMs: 5_000,
  lookupsAtOnce: 1_000,
  lookupKeptMs: 30_000,
  failedLookupKeptMs: 10_000,
  addressesKept: 1_000,
};

/** Returns a resolver that queries these servers, or none; its own names resolve in any case. */
export function resolverOf(
  server: { address: string } = { address: '127.0.0.1:1' },
  own: Partial<ResolverSettings> = {},
  deps: Partial<Pick<ResolverDeps, 'clock' | 'hostsFile'>> = {},
): Resolve {
  return createResolver({ clock: systemClock, ...deps, servers: [server.address], settings: { ...settings, ...own } });
}
