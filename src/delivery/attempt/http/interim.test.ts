import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Interim } from './response.ts';

const HUNDRED = 'HTTP/1.1 100 Continue\r\n\r\n';
const OTHER = 'HTTP/1.1 102 Continue\r\n\r\n';
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n\r\nHTTP/1.1 100';

/** Returns what is read when the bytes arrive in chunks of this size. */
function readIn(bytes: number, sent: string, interim = new Interim()): string {
  const pieces: Buffer[] = [];
  for (let at = 0; at < sent.length; at += bytes) pieces.push(Buffer.from(sent.slice(at, at + bytes)));
  for (const piece of pieces) interim.take(piece);
  return Buffer.concat(pieces).toString();
}

const table: readonly (readonly [what: string, sent: string, read: string])[] = [
  ['one', HUNDRED + OK, OTHER + OK],
  ['several', HUNDRED + HUNDRED + OK, OTHER + OTHER + OK],
  [
    'one with headers',
    `HTTP/1.1 100 C\r\nx: HTTP/1.1 100\r\ny:\r\n\r\n${OK}`,
    `HTTP/1.1 102 C\r\nx: HTTP/1.1 100\r\ny:\r\n\r\n${OK}`,
  ],
  [
    'one after another 1xx',
    `HTTP/1.1 103 E\r\nlink: x\r\n\r\n${HUNDRED}${OK}`,
    `HTTP/1.1 103 E\r\nlink: x\r\n\r\n${OTHER}${OK}`,
  ],
  ['one after an empty line', `\r\n${HUNDRED}${OK}`, `\r\n${OTHER}${OK}`],
  ['none', OK, OK],
  ['another 1xx', `HTTP/1.1 101 S\r\n\r\n`, `HTTP/1.1 101 S\r\n\r\n`],
  ['a status with tens', `HTTP/1.1 110 S\r\n\r\n${OK}`, `HTTP/1.1 110 S\r\n\r\n${OK}`],
  ['another protocol', '220 smtp\r\n100 100 100 100\r\n', '220 smtp\r\n100 100 100 100\r\n'],
];

for (const [what, sent, read] of table) {
  test(`a 100 before the response is read as 102, at any chunk boundary: ${what}`, () => {
    for (let bytes = 1; bytes <= sent.length; bytes += 1) assert.equal(readIn(bytes, sent), read, `by ${bytes}`);
  });
}

test('every request on a connection is handled the same way', () => {
  const interim = new Interim();
  assert.equal(readIn(5, HUNDRED + OK, interim), OTHER + OK);
  assert.equal(readIn(5, HUNDRED, interim), HUNDRED, 'bytes after the headers are not headers');
  interim.expect();
  assert.equal(readIn(5, HUNDRED + OK, interim), OTHER + OK);
});
