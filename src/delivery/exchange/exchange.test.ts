import assert from 'node:assert/strict';
import { createServer as createTcpServer } from 'node:net';
import { once } from 'node:events';
import { after, test } from 'node:test';
import type { AddressInfo, Socket } from 'node:net';
import { Pool } from 'undici';
import { startReceiver } from '../../../test/setup/receiver.ts';
import { Aborted, outcomeOfError, startExchange } from './exchange.ts';
import { createGuard } from './guard.ts';
import { createPools } from './pools.ts';

const limits = { exchangeTimeoutMs: 5_000, answerReadBytes: 64 * 1024, answerKeptBytes: 16 * 1024 };
const request = { path: '/hook?x=1', headers: { 'content-type': 'text/plain' }, body: Buffer.from('hello') };
const now = () => new Date('2026-11-21T12:00:00Z');

const pools = createPools(createGuard(['127.0.0.0/8']), 10);
after(() => pools.stop());
const send = (url: string, own: Partial<typeof limits> = {}) =>
  startExchange(pools.to(url), request, { ...limits, ...own }, now);

const receiver = await startReceiver();

/** A server that says what it likes, in bytes. */
const rawServer = async (onConnection: (socket: Socket) => void): Promise<string> => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    onConnection(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

test('a 2xx is delivered, with the body and headers as they were sent', async () => {
  receiver.answer((_got, response) => response.writeHead(202, { 'x-seen': 'yes' }).end('thanks'));
  const outcome = await send(receiver.url).outcome;
  assert.equal(outcome.kind, 'delivered');
  assert.equal(outcome.reply?.code, 202);
  assert.equal(outcome.reply?.body, 'thanks');
  assert.match(outcome.reply?.headers ?? '', /^x-seen: yes$/m);
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

test('an answer is kept up to its limit, and read no further than its limit', async () => {
  receiver.answer((_got, response) => {
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(16 * 1024, 'x')));
    };
    response.on('drain', more).writeHead(200);
    more();
  });
  const outcome = await send(receiver.url).outcome;
  assert.equal(outcome.kind, 'delivered');
  assert.equal(outcome.reply?.body.length, limits.answerKeptBytes);
});

test('the deadline covers the whole exchange, the body of the answer included', async () => {
  receiver.answer((_got, response) => void response.writeHead(200).write('x'));
  const outcome = await send(receiver.url, { exchangeTimeoutMs: 100 }).outcome;
  assert.deepEqual(outcome, { kind: 'timed_out', phase: 'answer', reply: null });
});

test('what is not text is kept as text without NUL', async () => {
  receiver.answer((_got, response) => response.writeHead(500).end(Buffer.from([0x61, 0x00, 0xff])));
  assert.equal((await send(receiver.url).outcome).reply?.body, 'a�');
});

test('a port that nobody listens on is unreachable', async () => {
  const gone = createTcpServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const port = (gone.address() as AddressInfo).port;
  gone.close();
  await once(gone, 'close');
  assert.deepEqual(await send(`http://127.0.0.1:${port}`).outcome, {
    kind: 'unreachable',
    why: 'connect',
    reply: null,
  });
});

test('a connection that is reset, before or after the headers, is unreachable', async () => {
  const atOnce = await rawServer((socket) => socket.on('data', () => socket.resetAndDestroy()));
  assert.deepEqual(await send(atOnce).outcome, { kind: 'unreachable', why: 'reset', reply: null });
  const later = await rawServer((socket) =>
    socket.on('data', () =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc', () => socket.resetAndDestroy()),
    ),
  );
  assert.deepEqual(await send(later).outcome, { kind: 'unreachable', why: 'reset', reply: null });
});

test('a name that does not exist is the fault of the endpoint', async () => {
  assert.deepEqual(await send('http://no-such-host.invalid').outcome, { kind: 'unreachable', why: 'dns', reply: null });
});

test('an address the guard forbids is blocked, whether written as a number or found by name', async () => {
  const strict = createPools(createGuard([]), 10);
  for (const url of [receiver.url, receiver.url.replace('127.0.0.1', 'localhost')]) {
    const before = receiver.got.length;
    const outcome = await startExchange(strict.to(url), request, limits, now).outcome;
    assert.equal(outcome.kind, 'blocked', url);
    assert.equal(receiver.got.length, before);
  }
  await strict.stop();
});

test('an exchange that we abort rejects and says nothing of the endpoint', async () => {
  receiver.answer(() => {});
  const before = receiver.got.length;
  const exchange = send(receiver.url);
  await receiver.until(before + 1);
  exchange.abort();
  await assert.rejects(exchange.outcome, Aborted);
});

test('a flood of informational answers is not an answer', async () => {
  const url = await rawServer((socket) =>
    socket.on('data', () => {
      for (let n = 0; n < 100; n += 1) socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n');
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
    }),
  );
  const pool = new Pool(url);
  const outcome = await startExchange(pool, request, limits, now).outcome;
  assert.equal(outcome.reply?.code, 200);
  await pool.close();
});

test('a resolver that fails is our own fault, a certificate that fails is the endpoint’s', () => {
  const failing = (code: string) => outcomeOfError(Object.assign(new Error(code), { code }), false);
  assert.deepEqual(failing('EAI_AGAIN'), { kind: 'ours', why: 'EAI_AGAIN', reply: null });
  assert.deepEqual(failing('CERT_HAS_EXPIRED'), { kind: 'unreachable', why: 'tls', reply: null });
  assert.deepEqual(failing('UND_ERR_CONNECT_TIMEOUT'), { kind: 'timed_out', phase: 'connect', reply: null });
});
