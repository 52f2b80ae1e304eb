import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Socket } from 'node:net';
import { passingClock, testClock } from '../../../../test/setup/clock.ts';
import { OK, openFixture, rawServer } from '../../../../test/setup/exchanges.ts';
import { startReceiver } from '../../../../test/setup/receiver.ts';
import { until } from '../../../../test/setup/until.ts';

const reset = { kind: 'unreachable', why: 'reset', reply: null };

/** Answers the first request of each connection, and handles the second as the test says. */
function answersOnce(second: (socket: Socket, n: number) => void) {
  let requests = 0;
  return rawServer((socket, n) => {
    let onThis = 0;
    socket.on('data', () => {
      requests += 1;
      onThis += 1;
      if (onThis === 1) socket.write(OK);
      else second(socket, n);
    });
  }).then((server) => ({ ...server, requests: () => requests }));
}

test('one connection carries sequential exchanges', async () => {
  const { send, connections } = openFixture();
  const server = await rawServer((socket) => socket.on('data', () => socket.write(OK)));
  for (let n = 0; n < 5; n += 1) assert.equal((await send(server.url).outcome).kind, 'delivered');
  assert.equal(server.sockets.length, 1);
  const { opening, busy, idle, opened, reused } = connections.sockets;
  assert.deepEqual({ opening, busy, idle, opened, reused }, { opening: 0, busy: 0, idle: 1, opened: 1, reused: 4 });
});

for (const how of ['resetAndDestroy', 'end'] as const) {
  test(`an idle connection that closes as a request arrives causes no failed attempt (${how})`, async () => {
    const { send, connections } = openFixture();
    const server = await answersOnce((socket) => socket[how]());
    const first = send(server.url);
    await first.outcome;
    const second = send(server.url);
    assert.equal((await second.outcome).kind, 'delivered');
    assert.deepEqual([first.wire.isRepeated, second.wire.isRepeated], [false, true]);
    assert.deepEqual([server.requests(), connections.sockets.opened], [3, 2]);
  });
}

test('once a response has begun, its request is not repeated', async () => {
  const { send } = openFixture();
  const server = await answersOnce((socket) => socket.write('HTTP/1.1 2', () => socket.resetAndDestroy()));
  await send(server.url).outcome;
  assert.deepEqual(await send(server.url).outcome, reset);
  assert.equal(server.requests(), 2);
});

test('an idle connection that closes a second after the request was written is not repeated', async () => {
  const clock = passingClock();
  const { send } = openFixture({}, { clock });
  const server = await answersOnce((socket) => {
    clock.advance(1_001);
    socket.end();
  });
  await send(server.url).outcome;
  assert.deepEqual(await send(server.url).outcome, reset);
  assert.equal(server.requests(), 2);
});

test('after any byte on a connection, its request is not repeated', async () => {
  const { send } = openFixture();
  const server = await answersOnce((socket) => socket.end('\r\n'));
  await send(server.url).outcome;
  assert.deepEqual(await send(server.url).outcome, reset);
  assert.equal(server.requests(), 2);
});

test('a request on a new connection that closes is not repeated', async () => {
  const { send } = openFixture();
  let requests = 0;
  const server = await rawServer((socket) =>
    socket.on('data', () => {
      requests += 1;
      socket.resetAndDestroy();
    }),
  );
  assert.deepEqual(await send(server.url).outcome, reset);
  assert.equal(requests, 1);
});

test('a request is repeated once, and not on another idle connection', async () => {
  const { send, connections } = openFixture();
  let isOver = false;
  let requests = 0;
  const server = await rawServer((socket) =>
    socket.on('data', () => {
      requests += 1;
      if (isOver) socket.resetAndDestroy();
      else if (requests >= 3) for (const waiting of server.sockets) waiting.write(OK);
    }),
  );
  await Promise.all([1, 2, 3].map(() => send(server.url).outcome));
  assert.equal(connections.sockets.idle, 3);
  isOver = true;
  assert.deepEqual(await send(server.url).outcome, reset);
  assert.deepEqual([requests, connections.sockets.opened], [5, 4]);
});

test('a connection that closed while idle is not reused', async () => {
  const { send, connections } = openFixture();
  const server = await rawServer((socket) => socket.on('data', () => socket.write(OK)));
  await send(server.url).outcome;
  server.sockets[0]?.end();
  await until(
    async () => connections.sockets.idle,
    (idle) => idle === 0,
  );
  assert.equal((await send(server.url).outcome).kind, 'delivered');
  assert.equal(server.sockets.length, 2);
});

test('a response that ends its connection leaves none behind', async () => {
  const { send, connections } = openFixture();
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(204, { connection: 'close' }).end());
  await send(receiver.url).outcome;
  await until(
    async () => connections.sockets,
    ({ idle, busy }) => idle + busy === 0,
  );
});

test('the number of idle connections is limited, and the one idle for longest is closed', async () => {
  const { send, connections } = openFixture({ idleSockets: 2 });
  const servers = await Promise.all(
    [1, 2, 3].map(() => rawServer((socket) => socket.on('data', () => socket.write(OK)))),
  );
  for (const { url } of servers) await send(url).outcome;
  const [first, second, third] = servers.map(({ sockets }) => sockets[0]);
  assert.equal(connections.sockets.idle, 2);
  await until(async () => first?.closed, Boolean);
  assert.deepEqual([second?.closed, third?.closed], [false, false]);
});

test('a connection beyond its maximum age is not reused', async () => {
  const clock = testClock();
  let addedMs = 0;
  const { send } = openFixture(
    { connectionAgeMs: 300_000 },
    { clock: { ...clock, monotonicMs: () => clock.monotonicMs() + addedMs } },
  );
  const server = await rawServer((socket) => socket.on('data', () => socket.write(OK)));
  await send(server.url).outcome;
  addedMs = 290_000;
  await send(server.url).outcome;
  assert.equal(server.sockets.length, 1);
  addedMs = 300_000;
  await send(server.url).outcome;
  assert.equal(server.sockets.length, 2);
  await until(async () => server.sockets[0]?.closed, Boolean);
});

test('an idle connection is closed after its own time-out, even if the endpoint names a longer one', async () => {
  const { send, connections } = openFixture({ idleSocketMs: 50 });
  const server = await rawServer((socket) =>
    socket.on('data', () => socket.write(OK.replace('\r\n', '\r\nkeep-alive: timeout=600\r\n'))),
  );
  await send(server.url).outcome;
  await until(
    async () => connections.sockets.idle,
    (idle) => idle === 0,
  );
});

test('stop closes all sockets', async () => {
  const { send, connections } = openFixture();
  const server = await rawServer((socket) => socket.on('data', () => socket.write(OK)));
  await send(server.url).outcome;
  await connections.stop();
  await until(async () => server.sockets[0]?.closed, Boolean);
  assert.equal(connections.sockets.idle, 0);
});
