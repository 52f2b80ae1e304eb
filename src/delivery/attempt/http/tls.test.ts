import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:https';
import { after, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates, type TlsOptions } from 'node:tls';
import { createAuthority, type KeyPair } from '../../../../test/setup/authority.ts';
import { testClock } from '../../../../test/setup/clock.ts';
import { openFixture, portOf, rawServer } from '../../../../test/setup/exchanges.ts';

const authority = createAuthority();
after(authority.remove);
const stranger = createAuthority();
after(stranger.remove);
// As NODE_EXTRA_CA_CERTS does when a process starts.
setDefaultCACertificates([...getCACertificates('default'), authority.cert]);

const loopback = authority.sign('IP:127.0.0.1', 'DNS:localhost');
const TICKET_KEYS = Buffer.alloc(48, 7);
const tls = { kind: 'unreachable', why: 'tls', reply: null };

/** Answers 204 and closes each connection, so that the next delivery needs a new one; counts its handshakes. */
async function endpoint(pair: KeyPair, options: TlsOptions & { port?: number } = {}) {
  const handshakes = { full: 0, resumed: 0 };
  const server = createServer({ ...pair, ticketKeys: TICKET_KEYS, ...options }, (_request, response) =>
    response.writeHead(204, { connection: 'close' }).end(),
  );
  server.on('secureConnection', (socket) => (handshakes[socket.isSessionReused() ? 'resumed' : 'full'] += 1));
  server.on('tlsClientError', () => {});
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((closed) => server.close(closed));
  };
  after(close);
  const port = portOf(server);
  return { url: `https://127.0.0.1:${port}`, port, handshakes, close };
}

for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`the next connection to an origin resumes its session (${maxVersion})`, async () => {
    const { send, connections } = openFixture();
    const { url, handshakes } = await endpoint(loopback, { maxVersion });
    for (let n = 0; n < 4; n += 1) assert.equal((await send(url).outcome).kind, 'delivered');
    assert.deepEqual(handshakes, { full: 1, resumed: 3 });
    assert.deepEqual(connections.sockets.handshakes, handshakes);
  });

  test(`a certificate for another name is refused, the second time too (${maxVersion})`, async () => {
    const { send } = openFixture();
    const { url } = await endpoint(authority.sign('DNS:other.example.com'), { maxVersion });
    for (let n = 0; n < 2; n += 1) assert.deepEqual(await send(url).outcome, tls);
  });
}

test('a certificate of an unknown authority is refused', async () => {
  const { send } = openFixture();
  const { url } = await endpoint(stranger.sign('IP:127.0.0.1'));
  assert.deepEqual(await send(url).outcome, tls);
});

test('an expired certificate is refused', async () => {
  const { send } = openFixture();
  const { url } = await endpoint(authority.signExpired('IP:127.0.0.1'));
  assert.deepEqual(await send(url).outcome, tls);
});

test('an endpoint is addressed by its name (SNI) and verified against it', async () => {
  const { send } = openFixture();
  const { port } = await endpoint(loopback);
  assert.equal((await send(`https://localhost:${port}`).outcome).kind, 'delivered');
});

test('the session of one origin is not offered to another', async () => {
  const { send } = openFixture();
  const [one, other] = [await endpoint(loopback), await endpoint(loopback)];
  await send(one.url).outcome;
  await send(other.url).outcome;
  assert.deepEqual(other.handshakes, { full: 1, resumed: 0 });
});

test('sessions are bounded: the least recently used one is dropped', async () => {
  const { send } = openFixture({ tlsSessions: 1 });
  const [one, other] = [await endpoint(loopback), await endpoint(loopback)];
  for (const { url } of [one, other, one]) await send(url).outcome;
  assert.deepEqual(one.handshakes, { full: 2, resumed: 0 });
});

test('a certificate is verified again after an hour, however often its session was resumed', async () => {
  const clock = testClock();
  let addedMs = 0;
  const { send } = openFixture({}, { clock: { ...clock, monotonicMs: () => clock.monotonicMs() + addedMs } });
  const { url, handshakes } = await endpoint(loopback);
  for (addedMs of [0, 1_800_000, 3_599_000]) await send(url).outcome;
  assert.deepEqual(handshakes, { full: 1, resumed: 2 });
  addedMs = 3_601_000;
  await send(url).outcome;
  assert.deepEqual(handshakes, { full: 2, resumed: 2 });
});

test('a session whose handshake failed is not offered again', async () => {
  const { send } = openFixture();
  const before = await endpoint(loopback);
  await send(before.url).outcome;
  await before.close();
  const failing = await rawServer((socket) => socket.once('data', () => socket.resetAndDestroy()), before.port);
  assert.deepEqual(await send(before.url).outcome, tls);
  failing.server.close();
  await once(failing.server, 'close');
  const again = await endpoint(loopback, { port: before.port });
  await send(before.url).outcome;
  assert.deepEqual(again.handshakes, { full: 1, resumed: 0 });
});

test('a plain-text response to a TLS handshake is a fault of TLS', async () => {
  const { send } = openFixture();
  const { port } = await rawServer((socket) => socket.on('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
  assert.deepEqual(await send(`https://127.0.0.1:${port}`).outcome, tls);
});

test('a connection that ends within its handshake is a fault of TLS', async () => {
  const { send } = openFixture();
  const { port } = await rawServer((socket) => socket.on('data', () => socket.resetAndDestroy()));
  assert.deepEqual(await send(`https://127.0.0.1:${port}`).outcome, tls);
});
