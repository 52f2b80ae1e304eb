import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { connect, type Socket } from 'node:net';
import { loopback, OK, openFixture, rawServer } from '../../../../test/setup/exchanges.ts';
import { until } from '../../../../test/setup/until.ts';
import { Aborted } from './exchange.ts';
import type { Phase } from './outcome.ts';

const late = (phase: Phase) => ({ kind: 'timed_out', phase, reply: null });
const soon = { exchangeTimeoutMs: 150 };

/** Connecting sockets of this process. */
const opening = (): number => process.getActiveResourcesInfo().filter((name) => name === 'ConnectWrap').length;
const none = () =>
  until(
    async () => opening(),
    (count) => count === 0,
  );

/** A listening port whose thread sleeps: once its backlog is full, connections are neither accepted nor refused. */
async function deafPort(context: { after: (fn: () => Promise<void>) => void }): Promise<number> {
  const deaf = new Worker(
    `const { parentPort } = require('node:worker_threads');
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      parentPort.postMessage(server.address().port);
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60000));
    });`,
    { eval: true },
  );
  const [port] = (await once(deaf, 'message')) as [number];
  // The kernel accepts one connection more than the backlog.
  const fillers: Socket[] = [];
  for (let n = 0; n < 2; n += 1) {
    const filler = connect(port, '127.0.0.1');
    filler.on('error', () => {});
    fillers.push(filler);
    await once(filler, 'connect');
  }
  context.after(async () => {
    for (const filler of fillers) filler.destroy();
    await deaf.terminate();
  });
  return port;
}

test('a name that does not resolve in time is no fault of its endpoint', async () => {
  const { send, connections } = openFixture({}, { guard: { ...loopback, lookupFor: () => () => {} } });
  const outcome = { kind: 'internal', why: 'ETIMEDOUT', reply: null };
  assert.deepEqual(await send('http://slow.example.com', soon).outcome, outcome);
  assert.equal(connections.sockets.opening, 0);
});

test('a connection that is not accepted: connect, and its socket is closed', async (context) => {
  const { send, connections } = openFixture();
  const url = `http://127.0.0.1:${await deafPort(context)}`;
  const exchange = send(url, soon);
  await until(
    async () => opening(),
    (count) => count === 1,
  );
  assert.deepEqual(await exchange.outcome, late('connect'));
  await none();
  assert.equal(connections.sockets.opening, 0);
});

test('connecting has its own time-out', async (context) => {
  const { send } = openFixture({ connectTimeoutMs: 100 });
  const url = `http://127.0.0.1:${await deafPort(context)}`;
  assert.deepEqual(await send(url, { exchangeTimeoutMs: 60_000 }).outcome, late('connect'));
  await none();
});

test('an attempt aborted while connecting leaves no socket', async (context) => {
  // Longer than the test waits: nothing else may close it.
  const { send } = openFixture({ connectTimeoutMs: 60_000 });
  const exchange = send(`http://127.0.0.1:${await deafPort(context)}`);
  await until(
    async () => opening(),
    (count) => count === 1,
  );
  exchange.abort();
  await assert.rejects(exchange.outcome, Aborted);
  await none();
});

test('a name that resolves after its exchange was aborted opens no socket', async () => {
  const { promise: asked, resolve } = Promise.withResolvers<() => void>();
  const lookup: ReturnType<typeof loopback.lookupFor> = (_name, _options, answer) =>
    resolve(() => answer(null, [{ address: '127.0.0.1', family: 4 }]));
  const { send } = openFixture({}, { guard: { ...loopback, lookupFor: () => lookup } });
  const server = await rawServer(() => {});
  const exchange = send(`http://slow.example.com:${server.port}`);
  const answerLate = await asked;
  exchange.abort();
  await assert.rejects(exchange.outcome, Aborted);
  answerLate();
  const after = openFixture().send(server.url);
  await until(async () => server.sockets.length, Boolean);
  after.abort();
  await assert.rejects(after.outcome, Aborted);
  assert.equal(server.sockets.length, 1);
});

test('an unanswered handshake: tls', async (t) => {
  const { send } = openFixture();
  const handshakes = new EventEmitter();
  const { port, sockets } = await rawServer((socket) => socket.on('data', () => handshakes.emit('begun')));
  const begun = once(handshakes, 'begun');
  // As below: a real deadline may pass before the connection is open.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { outcome } = send(`https://127.0.0.1:${port}`, soon);
  await begun;
  t.mock.timers.tick(soon.exchangeTimeoutMs);
  t.mock.timers.reset();
  assert.deepEqual(await outcome, late('tls'));
  await until(async () => sockets[0]?.closed, Boolean);
});

test('a request that is not read: send', async () => {
  const { send } = openFixture();
  const { url } = await rawServer((socket) => socket.pause());
  assert.deepEqual(await send(url, soon, Buffer.alloc(32 * 1024 * 1024)).outcome, late('send'));
});

test('an unanswered request: answer, on a new and on a reused connection', async (t) => {
  const { send } = openFixture();
  let isDeaf = false;
  const requests = new EventEmitter();
  const { url } = await rawServer((socket) =>
    socket.on('data', () => (isDeaf ? requests.emit('unanswered') : socket.write(OK))),
  );
  await send(url).outcome;
  isDeaf = true;
  for (let n = 0; n < 2; n += 1) {
    const arrived = once(requests, 'unanswered');
    // The deadline passes only by `tick`: a real one may pass before the request arrives.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { outcome } = send(url, soon);
    await arrived;
    t.mock.timers.tick(soon.exchangeTimeoutMs);
    t.mock.timers.reset();
    assert.deepEqual(await outcome, late('answer'));
  }
});

test('an endless header section: answer', async () => {
  const { send } = openFixture();
  const { url } = await rawServer((socket) => socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nx: y\r\n')));
  assert.deepEqual(await send(url, soon).outcome, late('answer'));
});

test('the deadline covers the whole exchange, including the response body: body', async () => {
  const { send } = openFixture();
  const { url, sockets } = await rawServer((socket) =>
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nab')),
  );
  assert.deepEqual(await send(url, soon).outcome, late('body'));
  await until(async () => sockets[0]?.closed, Boolean);
});
