import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter, once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { startDeafServer } from '../../../../test/setup/deaf-server.ts';
import { loopback, OK, openFixture, rawServer } from '../../../../test/setup/exchanges.ts';
import { until } from '../../../../test/setup/until.ts';
import { Aborted, type Exchange } from '../attempt.ts';
import type { Outcome, Phase } from './attempt-outcome.ts';

const late = (phase: Phase) => ({ kind: 'timed_out', phase, reply: null });
const soon = { exchangeTimeoutMs: 150 };

/**
 * Starts an exchange whose time-outs pass only by `expire`: a real one may pass before the exchange is in its phase. Until then
 * the test waits without timers.
 */
function begin(t: TestContext, start: () => Exchange): { expire: () => Promise<Outcome | undefined> } {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let outcome: Outcome | undefined;
  void start().outcome.then((one) => (outcome = one));
  return {
    expire: () => {
      t.mock.timers.tick(soon.exchangeTimeoutMs);
      t.mock.timers.reset();
      return until(async () => outcome, Boolean);
    },
  };
}

/** Connecting sockets of this process. */
const opening = (): number => process.getActiveResourcesInfo().filter((name) => name === 'ConnectWrap').length;
const none = () =>
  until(
    async () => opening(),
    (count) => count === 0,
  );

async function deafPort(context: { after: (fn: () => Promise<void>) => void }): Promise<number> {
  const { port, close } = await startDeafServer();
  context.after(close);
  return port;
}

test('a name that does not resolve in time is no fault of its endpoint', async (t) => {
  const { send, connections } = openFixture({}, { guard: { ...loopback, addressesOf: () => new Promise(() => {}) } });
  const outcome = { kind: 'internal', why: 'ETIMEDOUT', reply: null };
  assert.deepEqual(await begin(t, () => send('http://slow.example.com', soon)).expire(), outcome);
  assert.equal(connections.sockets.opening, 0);
});

test('a connection that is not accepted: connect, and its socket is closed', async (t) => {
  const { send, connections } = openFixture();
  const url = `http://127.0.0.1:${await deafPort(t)}`;
  const { expire } = begin(t, () => send(url, soon));
  await immediate();
  assert.equal(opening(), 1);
  assert.deepEqual(await expire(), late('connect'));
  await none();
  assert.equal(connections.sockets.opening, 0);
});

test('connecting has its own time-out', async (t) => {
  const { send } = openFixture({ connectTimeoutMs: soon.exchangeTimeoutMs });
  const url = `http://127.0.0.1:${await deafPort(t)}`;
  const { expire } = begin(t, () => send(url, { exchangeTimeoutMs: 60_000 }));
  await immediate();
  assert.equal(opening(), 1);
  assert.deepEqual(await expire(), late('connect'));
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
  const { promise: isAsked, resolve: ask } = Promise.withResolvers<void>();
  const { promise: addresses, resolve: answer } = Promise.withResolvers<{ address: string; family: number }[]>();
  const addressesOf = () => {
    ask();
    return addresses;
  };
  const { send } = openFixture({}, { guard: { ...loopback, addressesOf } });
  const server = await rawServer(() => {});
  const exchange = send(`http://slow.example.com:${server.port}`);
  await isAsked;
  exchange.abort();
  await assert.rejects(exchange.outcome, Aborted);
  answer([{ address: '127.0.0.1', family: 4 }]);
  const after = openFixture().send(server.url);
  await until(async () => server.sockets.length, Boolean);
  after.abort();
  await assert.rejects(after.outcome, Aborted);
  assert.equal(server.sockets.length, 1);
});

test('an unanswered handshake: tls', async (t) => {
  const { send } = openFixture();
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const { port, sockets } = await rawServer((socket) => socket.on('data', () => resolve()));
  const { expire } = begin(t, () => send(`https://127.0.0.1:${port}`, soon));
  await begun;
  assert.deepEqual(await expire(), late('tls'));
  await until(async () => sockets[0]?.closed, Boolean);
});

test('a request that is not read: send', async (t) => {
  const { send } = openFixture();
  const { url } = await rawServer((socket) => socket.pause());
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const mayBegin = () => {
    resolve();
    return true;
  };
  // More than the buffers of both sockets.
  const { expire } = begin(t, () => send(url, soon, Buffer.alloc(32 * 1024 * 1024), mayBegin));
  await begun;
  await immediate();
  assert.deepEqual(await expire(), late('send'));
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
    const { expire } = begin(t, () => send(url, soon));
    await arrived;
    assert.deepEqual(await expire(), late('answer'));
  }
});

test('an endless header section: answer', async (t) => {
  const { send } = openFixture();
  const { promise: written, resolve } = Promise.withResolvers<void>();
  const { url } = await rawServer((socket) =>
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nx: y\r\n', () => resolve())),
  );
  const { expire } = begin(t, () => send(url, soon));
  await written;
  assert.deepEqual(await expire(), late('answer'));
});

test('the deadline covers the whole exchange, including the response body: body', async (t) => {
  const { send } = openFixture();
  const { url, sockets } = await rawServer((socket) =>
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nab')),
  );
  const { promise: answered, resolve } = Promise.withResolvers<void>();
  const onHeaders = () => resolve();
  subscribe('undici:request:headers', onHeaders);
  const { expire } = begin(t, () => send(url, soon));
  await answered;
  unsubscribe('undici:request:headers', onHeaders);
  assert.deepEqual(await expire(), late('body'));
  await until(async () => sockets[0]?.closed, Boolean);
});
