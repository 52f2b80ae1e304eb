/** Expensive responses and requests with injected content: each is bounded or refused. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { systemClock } from '#core/clock.ts';
import { limits, OK, openFixture, rawServer } from '../../../../test/setup/exchanges.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { until } from '../../../../test/setup/until.ts';
import { startExchange } from '../attempt.ts';

const STATUS = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${STATUS}transfer-encoding: chunked\r\n\r\n`;
const TOO_LARGE = { kind: 'too_large', reply: null };

/** Writes `first` and then repeats `again` for as long as it is read. */
const endless = (first: string, again: string) => (socket: Socket) => {
  const piece = again.repeat(Math.ceil(8_192 / again.length));
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.once('data', () => {
    socket.write(first);
    more();
  });
  socket.on('drain', more);
};

/** None of them ever ends: without a cut-off it lasts until the deadline, which is longer than a test may take. */
const floods: readonly (readonly [what: string, first: string, again: string, status: number | undefined])[] = [
  ['empty lines before the response', '', '\r\n', undefined],
  ['a reason without end', 'HTTP/1.1 200 ', 'very OK ', undefined],
  ['fields without values', STATUS, 'a:\r\n', undefined],
  ['fields without end', STATUS, 'x: 0123456789012345678901234567890123456789\r\n', undefined],
  ['a value without end', `${STATUS}x: `, 'x', undefined],
  ['a name without end', STATUS, 'x', undefined],
  ['a body without end', `${STATUS}\r\n`, 'x', 200],
  ['a body of a gigabyte', `${STATUS}content-length: 1073741824\r\n\r\n`, 'x', 200],
  ['chunks without end', CHUNKED, '5\r\nabcde\r\n', 200],
  ['chunks of a byte without end', CHUNKED, '1\r\na\r\n', 200],
  ['an extension of a chunk without end', `${CHUNKED}1;`, 'x', 200],
  ['chunks with long extensions', CHUNKED, `1;${'x'.repeat(1_000)}\r\na\r\n`, 200],
  ['a size of a chunk without end', CHUNKED, '0', 200],
  ['trailers without values', `${CHUNKED}1\r\na\r\n0\r\n`, 'a:\r\n', 200],
  ['trailers without end', `${CHUNKED}1\r\na\r\n0\r\n`, 'x: y\r\n', 200],
  ['an error response with chunks without end', CHUNKED.replace('200', '500'), '1;x=y\r\na\r\n', 500],
];

for (const [what, first, again, status] of floods) {
  test(`${what}: cut off`, async () => {
    const { send } = openFixture();
    const { url, sockets } = await rawServer(endless(first, again));
    const { kind, reply } = await send(url, { exchangeTimeoutMs: 10_000 }).outcome;
    assert.deepEqual(
      [kind, reply?.code],
      status === undefined ? ['too_large', undefined] : [status === 200 ? 'delivered' : 'refused', status],
    );
    assert.ok((reply?.body.length ?? 0) <= limits.answerKeptBytes);
    await until(async () => sockets[0]?.closed, Boolean);
    assert.ok((sockets[0]?.bytesWritten ?? 0) < 16 * 1024 * 1024);
  });
}

test('a response in one-byte chunks is read completely, and only a few of its trailers', async () => {
  const body = 'abcdefghij'.repeat(6_000);
  const chunks = body.replaceAll(/./g, '1\r\n$&\r\n');
  const { url } = await rawServer((socket) =>
    socket.on('data', () => socket.write(`${CHUNKED}${chunks}0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n`)),
  );
  const { send, connections } = openFixture();
  for (let n = 0; n < 2; n += 1)
    assert.equal((await send(url).outcome).reply?.body, body.slice(0, limits.answerKeptBytes));
  assert.equal(connections.sockets.opened, 1);
});

test('256 header lines are read, and one more is too large', async () => {
  const answer = (fields: number) => `${STATUS}${'x: y\r\n'.repeat(fields)}content-length: 0\r\n\r\n`;
  const outcomeOf = async (fields: number) => {
    const { url } = await rawServer((socket) => socket.on('data', () => socket.write(answer(fields))));
    return openFixture().send(url).outcome;
  };
  assert.equal((await outcomeOf(253)).reply?.code, 200);
  assert.deepEqual(await outcomeOf(255), TOO_LARGE);
});

for (const [what, flood] of [
  ['empty lines', '\r\n'],
  ['an unrequested response', OK],
] as const) {
  test(`a flood on an idle connection closes it: ${what}`, async () => {
    const { send, connections } = openFixture({ idleSocketMs: 60_000 });
    const { url, sockets } = await rawServer((socket) => socket.once('data', () => socket.write(OK)));
    assert.equal((await send(url).outcome).kind, 'delivered');
    sockets[0]?.write(flood.repeat(4_000));
    await until(async () => sockets[0]?.closed, Boolean);
    assert.deepEqual([connections.sockets.idle, connections.sockets.busy], [0, 0]);
  });
}

test('of two responses to one request, the second is discarded', async () => {
  const { send } = openFixture();
  const { url, sockets } = await rawServer((socket, n) =>
    socket.on('data', () => socket.write(n === 1 ? OK + OK.replace('200 OK', '410 Gone') : OK)),
  );
  for (let n = 0; n < 2; n += 1) assert.equal((await send(url).outcome).reply?.code, 200);
  assert.equal(sockets.length, 2);
});

test('a header field that contains a response stays a field', async () => {
  const { url } = await rawServer((socket) =>
    socket.on('data', () => socket.write(`${STATUS}x: a%0d%0aHTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n`)),
  );
  const { kind, reply } = await openFixture().send(url).outcome;
  assert.deepEqual([kind, reply?.headers], ['delivered', 'x: a%0d%0aHTTP/1.1 410 Gone\ncontent-length: 0']);
});

test('a compressed response is stored as the bytes received', async () => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb));
  const { reply } = await openFixture().send(receiver.url).outcome;
  const kept = bomb.subarray(0, limits.answerKeptBytes).toString('utf8').replaceAll('\0', '');
  assert.equal(reply?.body, kept.slice(0, limits.answerKeptBytes));
});

test('no redirect is followed, and each has its own status', async () => {
  const receiver = await startReceiver();
  const { send } = openFixture();
  for (const status of [300, 301, 302, 303, 307, 308]) {
    receiver.answer((_got, response) => response.writeHead(status, { location: receiver.url }).end());
    const { kind, reply } = await send(receiver.url).outcome;
    assert.deepEqual([kind, reply?.code], ['refused', status]);
  }
  assert.equal(receiver.got.length, 6);
});

test('a line break in a request header is never sent', async () => {
  const receiver = await startReceiver();
  const { connections } = openFixture();
  const spoiled: readonly (readonly [path: string, headers: string[]])[] = [
    ['/hook HTTP/1.1\r\nx: y', []],
    ['/hook\n', []],
    ['/hook', ['x', 'y\r\nz: 1']],
    ['/hook', ['x', 'y\nz: 1']],
    ['/hook', ['x\r\ny', 'z']],
    ['/hook', ['x', 'y\0']],
    ['/hook', ['x: y', 'z']],
  ];
  for (const [path, headers] of spoiled) {
    const request = { path, headers, body: Buffer.from('hello'), mayBegin: () => true };
    const { outcome } = startExchange(receiver.url, request, { connections, clock: systemClock, limits });
    assert.deepEqual([path, headers, (await outcome).kind], [path, headers, 'internal']);
  }
  assert.equal(receiver.got.length, 0);
});
