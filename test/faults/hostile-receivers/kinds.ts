/** Hostile receivers, in bytes on a socket, and the outcome of the attempts at each of them. */
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

export type Kind = {
  /** The attempt's outcome, as shown under svc:logs. */
  outcome: string;
  status: number | null;
  /** Over TLS, if it misbehaves before the first byte of HTTP; the name of its server. */
  tls?: 'stranger' | 'expired' | 'deaf';
  /** What it does with a complete request. */
  answer: (socket: Socket) => void;
};

const STATUS = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${STATUS}transfer-encoding: chunked\r\n\r\n`;
function nothing(): void {}

/** Writes for as long as it is read. */
function endless(first: string, again: string) {
  const piece = Buffer.from(again.repeat(Math.ceil(16_384 / again.length)));
  return (socket: Socket): void => {
    const more = () => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.write(first);
    socket.on('drain', more);
    more();
  };
}

const byteASecond = (first: string) => (socket: Socket) => {
  socket.write(first);
  const each = setInterval(() => socket.write('x'), 1_000);
  socket.once('close', () => clearInterval(each));
};

const gigabyteOfZeros = gzipSync(Buffer.alloc(64 * 1024 * 1024));
const BOMB = Buffer.concat([
  Buffer.from(`${STATUS}content-encoding: gzip\r\ncontent-length: ${gigabyteOfZeros.length}\r\n\r\n`),
  gigabyteOfZeros,
]);

const lost = { outcome: 'unreachable:reset', status: null };
const large = { outcome: 'too_large', status: null };
const taken = { outcome: 'delivered', status: 200 };
const noTls = { outcome: 'unreachable:tls', status: null, answer: nothing };

export const KINDS: Readonly<Record<string, Kind>> = {
  'a head of a byte a second': { outcome: 'timed_out:answer', status: null, answer: byteASecond(`${STATUS}x: `) },
  'a body of a byte a second': {
    outcome: 'timed_out:body',
    status: null,
    answer: byteASecond(`${STATUS}content-length: 1000\r\n\r\n`),
  },
  'chunks without end': { ...taken, answer: endless(CHUNKED, '5\r\nabcde\r\n') },
  'an extension of a chunk without end': { ...taken, answer: endless(`${CHUNKED}1;`, 'x') },
  'a body of a gigabyte': { ...taken, answer: endless(`${STATUS}content-length: 1073741824\r\n\r\n`, 'x') },
  'a bomb of gzip': { ...taken, answer: (socket) => void socket.write(BOMB) },
  'interim answers without end': { ...large, answer: endless('', 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n') },
  'a huge head': { ...large, answer: endless(STATUS, `x: ${'x'.repeat(1_000)}\r\n`) },
  'a head of many lines, and silence': {
    ...large,
    answer: (socket) => void socket.write(STATUS + 'a:\r\n'.repeat(16_000)),
  },
  'empty lines without end': { ...large, answer: endless('', '\r\n') },
  'a reset after the head': {
    ...lost,
    answer: (socket) => void socket.write(`${STATUS}content-length: 9\r\n\r\nabc`, () => socket.resetAndDestroy()),
  },
  'an end without an answer': { ...lost, answer: (socket) => void socket.destroy() },
  'half an end without an answer': { ...lost, answer: (socket) => void socket.end() },
  silence: { outcome: 'timed_out:answer', status: null, answer: nothing },
  'another protocol': {
    outcome: 'malformed',
    status: null,
    answer: (socket) => void socket.write('220 smtp ready\r\n'),
  },
  'an answer that is two': {
    ...taken,
    answer: (socket) =>
      void socket.write(`${STATUS}content-length: 2\r\n\r\nokHTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n`),
  },
  'a redirect to our own fixture': {
    outcome: 'refused',
    status: 307,
    answer: (socket) =>
      void socket.write('HTTP/1.1 307 x\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n'),
  },
  'a certificate of another name': { ...noTls, tls: 'stranger' },
  'a certificate of another year': { ...noTls, tls: 'expired' },
  'no handshake': { outcome: 'timed_out:tls', status: null, tls: 'deaf', answer: nothing },
};

export const NAMES = Object.keys(KINDS);
