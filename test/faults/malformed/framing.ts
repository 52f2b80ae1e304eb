/** Input that is barely HTTP: each on a connection of its own, because the start of a next request would be ambiguous. */
import * as fc from 'fast-check';
import type { Fixture, Spot } from './fixture.ts';
import { listed } from './text-list.ts';
import { raw, type Message } from './message.ts';

const METHODS = [
  ...listed('get ¦ Get ¦ FOO ¦ GETT ¦  ¦ G ET ¦ CONNECT ¦ TRACE ¦ PRI ¦ \xff ¦ POST\0'),
  'M'.repeat(9_000),
];
const VERSIONS = listed('HTTP/1.0 ¦ HTTP/0.9 ¦ HTTP/2.0 ¦ HTTP/9.9 ¦ http/1.1 ¦ HTTP/1. ¦  ¦ HTTPS/1.1 ¦ ICE/1.0');
const LENGTHS = listed(
  '-1 ¦ +1 ¦ 0x10 ¦ 1e1 ¦ 1, 2 ¦ 1,1 ¦ 99 ¦ 99999999999999999999 ¦  ¦ a ¦ 1\r\nContent-Length: 2 ¦ 0\r\nContent-Length: 0',
);
const CODINGS = listed(
  'chunked ¦ xchunked ¦ chunked, gzip ¦ gzip ¦ Chunked ¦ chunked\r\nTransfer-Encoding: identity ¦ \x0bchunked ¦ ',
);
const CHUNKS = [
  ...listed('0\r\n\r\n ¦ 2\r\n{}\r\n0\r\n\r\n ¦ zz\r\n{}\r\n ¦ -1\r\n ¦ ffffffffffffffffff\r\n{} ¦ 2\r\n{} ¦ 0\r\n'),
  ...listed('2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n ¦ 1\r\n{}\r\n0\r\n\r\n'),
  `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`,
];
const LINES = [
  ...listed(
    'X: a\0b ¦ X : a ¦  X: a ¦ X ¦ : a ¦ X: a\rb ¦ X: a\n b ¦ Host: elsewhere ¦ Host: a b ¦ Host: [ ¦ Expect: nothing',
  ),
  ...listed(
    'Upgrade: websocket\r\nConnection: Upgrade, close ¦ Connection: close, keep-alive ¦ X\xff: a ¦ Cookie: \x01',
  ),
  `X: ${'a'.repeat(40_000)}`,
];
const TARGETS = [
  ...listed('* ¦  ¦ http://elsewhere.example/ ¦ http://[ ¦ // ¦ ? ¦ #a ¦ a ¦ /\xff ¦ /\0 ¦ / / ¦ localhost:80'),
  `/${'a'.repeat(40_000)}`,
];
const PREFACES = [
  ...listed(
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n ¦ \x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03 ¦ \n\n\n ¦ \0\0\0\0 ¦ HELO x\r\n',
  ),
  ...listed('GET /\r\n\r\n ¦ \x80\x2e\x01 ¦ GET / HTTP/1.1\nHost: x\n\n'),
  '\r\n'.repeat(500),
];

type Head = { method: string; target: string; version: string; lines: readonly string[]; rest: string };

const but = (head: Head, change: Partial<Head>): Head => ({ ...head, ...change });

const whole = ({ method, target, version, lines, rest }: Head): string =>
  `${[`${method} ${target} ${version}`, ...lines].join('\r\n')}\r\n\r\n${rest}`;

function heads({ app, credentials }: Fixture, spot: Spot): fc.Arbitrary<Message> {
  const { host } = new URL(app.baseUrl);
  const plain = fc.constantFrom(...credentials).map((who): Head => ({
    method: spot.method,
    target: spot.path,
    version: 'HTTP/1.1',
    // As everywhere: no valid DELETE.
    lines: [
      `Host: ${host}`,
      'If-Match: "stale"',
      'Content-Type: application/json',
      ...who.map((header) => header.join(': ')),
    ],
    rest: '',
  }));
  const add = (...more: string[]) => plain.map((head) => but(head, { lines: [...head.lines, ...more] }));
  const broken: fc.Arbitrary<Head>[] = [
    fc.tuple(plain, fc.constantFrom(...METHODS)).map(([head, method]) => but(head, { method })),
    fc.tuple(plain, fc.constantFrom(...VERSIONS)).map(([head, version]) => but(head, { version })),
    fc.tuple(plain, fc.constantFrom(...TARGETS)).map(([head, target]) => but(head, { target })),
    plain.map((head) => but(head, { lines: head.lines.slice(1) })),
    fc.constantFrom(...LINES).chain((line) => add(line)),
    fc
      .tuple(
        fc.constantFrom(...LENGTHS).chain((length) => add(`Content-Length: ${length}`)),
        fc.constantFrom('', '{}', '{"name":"a'),
      )
      .map(([head, rest]) => but(head, { rest })),
    fc
      .tuple(
        fc.constantFrom(...CODINGS).chain((coding) => add(`Transfer-Encoding: ${coding}`)),
        fc.constantFrom(...CHUNKS),
      )
      .map(([head, rest]) => but(head, { rest })),
    add('Content-Length: 2', 'Transfer-Encoding: chunked').map((head) => but(head, { rest: '0\r\n\r\n' })),
  ];
  const text = fc.oneof(...broken).map(whole);
  const cut = fc.tuple(plain, fc.nat({ max: 200 })).map(([head, at]) => whole(head).slice(0, at));
  return fc.oneof({ weight: 8, arbitrary: text }, cut).map((bytes) => raw(spot, bytes));
}

export function brokenFraming(fixture: Fixture): fc.Arbitrary<Message> {
  const [first] = fixture.spots;
  if (first === undefined) throw new TypeError('There is no address');
  const noHttp = fc.oneof(
    fc.constantFrom(...PREFACES).map((text) => raw(first, text)),
    fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => raw(first, Buffer.from(bytes).toString('latin1'))),
  );
  return fc.oneof(
    { weight: 1, arbitrary: noHttp },
    { weight: 6, arbitrary: fc.constantFrom(...fixture.spots).chain((spot) => heads(fixture, spot)) },
  );
}
