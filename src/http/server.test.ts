/** Clients that stop reading: their connections are closed by time, and by the bytes of all of them together. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import fastify from 'fastify';
import { limitUnsent } from './server.ts';

const UNSENT_MS = 30_000;
const PAGE = Buffer.alloc(8 * 1024 * 1024, 'x');
const PAGES_MAX = 4;
const HEADERS_MAX = 4 * 1024;
const TEXT = 'x'.repeat(60 * 1024);
const REQUESTS = 1_000;

/** Starts a server whose pages are sent when `ready` is called; each request is of a client that reads nothing. */
async function start(t: TestContext) {
  const responses: ServerResponse[] = [];
  const app = fastify({ forceCloseConnections: true });
  limitUnsent(app, { unsentMs: UNSENT_MS, unsentBytesMax: PAGES_MAX * PAGE.length });
  const ready: (() => void)[] = [];
  app.get('/', async (_request, reply) => {
    responses.push(reply.raw);
    const { promise, resolve } = Promise.withResolvers<void>();
    ready.push(resolve);
    app.server.emit('asked');
    await promise;
    return reply.send(PAGE);
  });
  app.get('/text', async () => TEXT);
  const streams: Readable[] = [];
  app.get('/stream', async (_request, reply) => {
    const stream = new Readable({ read: () => {} });
    streams.push(stream);
    stream.push(PAGE);
    app.server.emit('streams');
    return reply.type('text/event-stream').send(stream);
  });
  let sent = 0;
  app.addHook('onSend', async () => void app.server.emit('sends', (sent += 1)));
  await app.listen({ port: 0, host: '127.0.0.1' });
  t.after(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  const ask = async () => {
    const client = connect(port, '127.0.0.1').pause();
    client.on('error', () => {});
    t.after(() => client.destroy());
    const asked = once(app.server, 'asked');
    client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await asked;
    const response = responses.at(-1) ?? assert.fail();
    return { response, send: ready.at(-1) ?? assert.fail() };
  };
  return { ask, port, streams, server: app.server };
}

/** Resolves when the response has been handed to the connection, which takes only a part of it. */
async function handedOver(response: ServerResponse): Promise<void> {
  if (response.writableLength === 0) await once(response, 'prefinish');
  assert.ok(response.writableLength > 1024 * 1024);
}

test('a connection whose client reads nothing is closed after a time, and one that waits for its response is not', async (t) => {
  const { ask } = await start(t);
  const { response, send } = await ask();
  const { socket } = response;
  assert.equal(socket?.timeout, UNSENT_MS);
  // As the timer of Node does after this time without a byte.
  socket.emit('timeout');
  assert.equal(socket.destroyed, false, 'nothing is unsent');
  send();
  await handedOver(response);
  socket.emit('timeout');
  assert.deepEqual([socket.destroyed, response.writableFinished], [true, false]);
});

test('all connections together have a limited number of bytes unsent: the oldest are closed', async (t) => {
  const { ask } = await start(t);
  const all: ServerResponse[] = [];
  for (let number = 0; number < 3 * PAGES_MAX; number += 1) {
    const { response, send } = await ask();
    all.push(response);
    send();
    await handedOver(response);
    const unsent = all.reduce((sum, one) => sum + (one.destroyed ? 0 : one.writableLength), 0);
    assert.ok(unsent <= PAGES_MAX * PAGE.length + HEADERS_MAX, `${unsent} bytes after ${number + 1}`);
  }
  const isOpen = all.map(({ destroyed }) => !destroyed);
  assert.ok(isOpen.filter(Boolean).length >= PAGES_MAX - 1);
  assert.ok(isOpen.lastIndexOf(false) < isOpen.indexOf(true), 'the newest are open');
});

test('small responses to requests that were sent at once count too', async (t) => {
  const { port, server } = await start(t);
  const client = connect(port, '127.0.0.1').pause();
  t.after(() => client.destroy());
  client.on('error', () => {});
  const [connection] = (await once(server, 'connection')) as [Socket];
  const { promise: sendsLast, resolve } = Promise.withResolvers<void>();
  server.on('sends', (sent: number) => {
    if (sent === REQUESTS) resolve();
  });
  client.write('GET /text HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(REQUESTS));
  await Promise.race([once(connection, 'close'), sendsLast]);
  assert.equal(connection.destroyed, true);
});

test('a stream that ends although its client has not read it is reset: nothing of it stays in the kernel', async (t) => {
  const { port, server, streams } = await start(t);
  const client = connect(port, '127.0.0.1').pause();
  t.after(() => client.destroy());
  const { promise: ended, resolve } = Promise.withResolvers<NodeJS.ErrnoException | undefined>();
  client.once('error', resolve).once('close', () => resolve(undefined));
  const connected = once(server, 'connection') as Promise<[Socket]>;
  client.write('GET /stream HTTP/1.1\r\nHost: x\r\n\r\n');
  const [[connection]] = await Promise.all([connected, once(server, 'streams')]);
  const closed = once(connection, 'close');
  streams[0]?.destroy();
  await closed;
  client.resume();
  assert.equal((await ended)?.code, 'ECONNRESET');
});
