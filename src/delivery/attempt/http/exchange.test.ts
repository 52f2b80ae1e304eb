import assert from 'node:assert/strict';
import { createServer as createTcpServer } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { limits, OK, openFixture, portOf, rawServer } from '../../../../test/setup/exchanges.ts';
import { resolverOf } from '../../../../test/setup/name-server.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { until } from '../../../../test/setup/until.ts';
import { Aborted, startExchange } from '../attempt.ts';
import { createGuard } from './outbound-guard.ts';

const { connections, send } = openFixture();
const receiver = await startReceiver();

test('a 2xx is delivered, with body and headers as they were sent', async () => {
  receiver.answer((_got, response) =>
    response.writeHead(202, { 'x-seen': 'yes', 'set-cookie': ['a', 'b'] }).end('thanks'),
  );
  const outcome = await send(receiver.url).outcome;
  assert.equal(outcome.kind, 'delivered');
  assert.equal(outcome.reply?.code, 202);
  assert.equal(outcome.reply?.body, 'thanks');
  assert.match(outcome.reply?.headers ?? '', /^x-seen: yes\nset-cookie: a\nset-cookie: b\n/);
  const got = receiver.got.at(-1);
  assert.equal(got?.path, '/hook?x=1');
  assert.equal(got?.body.toString(), 'hello');
});

test('a redirect is not followed', async () => {
  const before = receiver.got.length;
  receiver.answer((_got, response) => response.writeHead(307, { location: receiver.url }).end());
  assert.equal((await send(receiver.url).outcome).kind, 'refused');
  assert.equal(receiver.got.length, before + 1);
});

test('a response is stored and read up to its limit', async () => {
  receiver.answer((_got, response) => {
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(16 * 1024, 'x')));
    };
    response.on('drain', more).writeHead(200);
    more();
  });
  const outcome = await send(receiver.url).outcome;
  assert.equal(outcome.kind, 'delivered');
  assert.equal(outcome.reply?.body?.length, limits.answerKeptBytes);
});

test('a binary response is stored as text without NUL', async () => {
  receiver.answer((_got, response) => response.writeHead(500).end(Buffer.from([0x61, 0x00, 0xff])));
  assert.equal((await send(receiver.url).outcome).reply?.body, 'a�');
});

test('a closed port is unreachable', async () => {
  const gone = createTcpServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const port = portOf(gone);
  gone.close();
  await once(gone, 'close');
  assert.deepEqual(await send(`http://127.0.0.1:${port}`).outcome, {
    kind: 'unreachable',
    why: 'connect',
    reply: null,
  });
});

test('a connection reset before or after the headers is unreachable', async () => {
  const atOnce = await rawServer((socket) => socket.on('data', () => socket.resetAndDestroy()));
  assert.deepEqual(await send(atOnce.url).outcome, { kind: 'unreachable', why: 'reset', reply: null });
  const later = await rawServer((socket) =>
    socket.on('data', () =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc', () => socket.resetAndDestroy()),
    ),
  );
  assert.deepEqual(await send(later.url).outcome, { kind: 'unreachable', why: 'reset', reply: null });
});

test('an address that the guard forbids is blocked, as a number and by name', async () => {
  const strict = openFixture({}, { guard: createGuard({}, resolverOf()) });
  for (const url of [receiver.url, receiver.url.replace('127.0.0.1', 'localhost')]) {
    const before = receiver.got.length;
    const outcome = await strict.send(url).outcome;
    assert.equal(outcome.kind, 'blocked', url);
    assert.equal(receiver.got.length, before);
  }
});

test('an exchange that we abort rejects and does not count against the endpoint', async () => {
  receiver.answer(() => {});
  const before = receiver.got.length;
  const exchange = send(receiver.url);
  await receiver.until(before + 1);
  exchange.abort();
  await assert.rejects(exchange.outcome, Aborted);
});

test('a request that may no longer be sent when its connection opens is not sent', async () => {
  const before = receiver.got.length;
  // Frozen since the connection was requested: the connection is open, but the lease has expired.
  let isSure = true;
  const { outcome } = openFixture().send(receiver.url, {}, Buffer.from('late'), () => isSure);
  isSure = false;
  await assert.rejects(outcome, Aborted);
  receiver.answer((_got, response) => response.writeHead(204).end());
  assert.equal((await send(receiver.url).outcome).kind, 'delivered');
  assert.equal(receiver.got.length, before + 1);
});

test('a request that cannot be written is an internal fault', async () => {
  const request = { path: 'no slash', headers: [], body: Buffer.from(''), mayBegin: () => true };
  const exchange = startExchange(receiver.url, request, { connections, clock: systemClock, limits });
  assert.deepEqual(await exchange.outcome, { kind: 'internal', why: 'UND_ERR_INVALID_ARG', reply: null });
});

const informational = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n';

test('informational responses are skipped', async () => {
  const { url } = await rawServer((socket) => socket.on('data', () => socket.write(informational.repeat(32) + OK)));
  assert.equal((await send(url).outcome).reply?.code, 200);
});

test('the 33rd informational response ends the exchange', async () => {
  const { url } = await rawServer((socket) => socket.on('data', () => socket.write(informational.repeat(33) + OK)));
  assert.deepEqual(await send(url).outcome, { kind: 'too_large', reply: null });
});

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

test('an unrequested 100 is skipped, on a reused connection too', async () => {
  const { url, sockets } = await rawServer((socket) =>
    socket.on('data', () => socket.write(CONTINUE, () => socket.write(CONTINUE + OK))),
  );
  for (let n = 0; n < 2; n += 1) assert.equal((await send(url).outcome).reply?.code, 200);
  assert.equal(sockets.length, 1);
});

for (const head of [informational, CONTINUE]) {
  test(`a flood of informational responses is cut off (${head.slice(9, 12)})`, async () => {
    const { url, sockets } = await rawServer((socket) => {
      const more = () => {
        while (!socket.destroyed && socket.write(head.repeat(100)));
      };
      socket.on('drain', more).on('data', more);
    });
    assert.deepEqual(await send(url).outcome, { kind: 'too_large', reply: null });
    await until(async () => sockets[0]?.closed, Boolean);
  });
}

test('response headers beyond their limit are too large', async () => {
  const { url } = await rawServer((socket) =>
    socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(20_000)}\r\ncontent-length: 0\r\n\r\n`)),
  );
  assert.deepEqual(await send(url).outcome, { kind: 'too_large', reply: null });
});

for (const upgrade of ['', 'connection: upgrade\r\nupgrade: websocket\r\n']) {
  test(`a 101 ${upgrade === '' ? 'without' : 'with'} another protocol is refused`, async () => {
    const { url } = await rawServer((socket) =>
      socket.on('data', () => socket.write(`HTTP/1.1 101 Switching Protocols\r\n${upgrade}\r\n`)),
    );
    const outcome = await send(url).outcome;
    assert.deepEqual([outcome.kind, outcome.reply?.code], ['refused', 101]);
  });
}

const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n';
const malformed = {
  'another protocol': 'SSH-2.0-OpenSSH_10.0\r\n',
  'lines without CR': 'HTTP/1.1 200 OK\ncontent-length: 2\n\nok',
  'two lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok',
  'an invalid length': 'HTTP/1.1 200 OK\r\ncontent-length: 2x\r\n\r\nok',
  'an invalid status': 'HTTP/1.1 099 OK\r\n\r\n',
  'a chunk without its size': `${chunked}\r\nxyz\r\n`,
};

test('a response that is not HTTP/1.1 is malformed', async () => {
  for (const [what, bytes] of Object.entries(malformed)) {
    const { url } = await rawServer((socket) => socket.on('data', () => socket.write(bytes)));
    assert.deepEqual(await send(url).outcome, { kind: 'malformed', reply: null }, what);
  }
});

test('a response that ends too soon is a lost connection', async () => {
  const closing = 'connection: close\r\n';
  for (const bytes of [
    `${chunked}${closing}\r\n5\r\nab`,
    `HTTP/1.1 200 OK\r\n${closing}content-length: 5\r\n\r\nab`,
    'HTTP/1.1 200 OK\r\nx: y',
  ]) {
    const { url } = await rawServer((socket) => socket.on('data', () => socket.end(bytes)));
    assert.deepEqual(await send(url).outcome, { kind: 'unreachable', why: 'reset', reply: null }, bytes);
  }
});
