/** Clients that send a part of a body and wait. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import fastify from 'fastify';
import { readBodies } from './arriving.ts';

const KIB = 1024;
const BODY_BYTES = 64 * KIB;
const PART = 'x'.repeat(48 * KIB);
/** Three parts and the rest of a body are within the limit, and four parts are not. */
const ARRIVING_BYTES_MAX = 4 * PART.length - KIB;

async function start(t: TestContext) {
  const app = fastify({ forceCloseConnections: true, trustProxy: true, bodyLimit: BODY_BYTES });
  readBodies(app, { arrivingBytesMax: ARRIVING_BYTES_MAX });
  app.post('/', async ({ body }) => String((body as Buffer).length));
  const parts = new Map<Socket, number>();
  app.addHook('preParsing', async ({ raw }) => {
    raw.on('data', (chunk: Buffer) => {
      const bytes = (parts.get(raw.socket) ?? 0) + chunk.length;
      parts.set(raw.socket, bytes);
      // After the listeners of the part.
      if (bytes === PART.length) queueMicrotask(() => app.server.emit('part'));
    });
    // The reader of bodies starts it.
    raw.pause();
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  t.after(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  /** Sends the head and a part of the body, and resolves when the server has received it. */
  const sendPart = async (head = `Content-Length: ${BODY_BYTES}`, part = PART) => {
    const client = connect(port, '127.0.0.1').on('error', () => {});
    t.after(() => client.destroy());
    const [connection] = (await Promise.all([once(app.server, 'connection'), once(client, 'connect')]))[0] as [Socket];
    const received = once(app.server, 'part');
    client.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n${head}\r\n\r\n${part}`);
    await received;
    return { client, connection };
  };
  /** Sends the rest of the body, and returns the response. */
  const sendRest = async (client: Socket): Promise<string> => {
    client.setEncoding('utf8').end('x'.repeat(BODY_BYTES - PART.length));
    const [response] = (await once(client, 'data')) as [string];
    return response;
  };
  /** Sends a chunked body as a whole, and returns the response. */
  const ask = async (body: string): Promise<string> => {
    const client = connect(port, '127.0.0.1').on('error', () => {});
    client.end(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n${body}`);
    return text(client);
  };
  return { sendPart, sendRest, ask };
}

test('bodies that have not arrived whole have a common limit: the connections of the oldest are closed', async (t) => {
  const { sendPart, sendRest } = await start(t);
  const all = [await sendPart(), await sendPart(), await sendPart()];
  assert.deepEqual(
    all.map(({ connection }) => connection.destroyed),
    [false, false, false],
  );
  all.push(await sendPart());
  assert.deepEqual(
    all.map(({ connection }) => connection.destroyed),
    [true, false, false, false],
  );
  for (const { client } of all.slice(1)) assert.match(await sendRest(client), /^HTTP\/1\.1 200[^]*65536$/);
});

test('the limit counts a body without a declared length', async (t) => {
  const { sendPart } = await start(t);
  const chunked = `${PART.length.toString(16)}\r\n${PART}\r\n`;
  const all = [];
  for (let n = 0; n < 4; n += 1) all.push(await sendPart('Transfer-Encoding: chunked', chunked));
  assert.deepEqual(
    all.map(({ connection }) => connection.destroyed),
    [true, false, false, false],
  );
});

test('bodies that have arrived, and those of closed connections, do not count', async (t) => {
  const { sendPart, sendRest } = await start(t);
  for (let n = 0; n < 8; n += 1) {
    const { client } = await sendPart();
    if (n % 2 === 0) assert.match(await sendRest(client), /^HTTP\/1\.1 200/);
    else {
      const { connection, client: other } = await sendPart();
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      connection.once('close', () => resolve());
      other.destroy();
      await closed;
      await sendRest(client);
    }
  }
  const all = [await sendPart(), await sendPart(), await sendPart()];
  assert.deepEqual(
    all.map(({ connection }) => connection.destroyed),
    [false, false, false],
  );
});

test('the bodies of a client reset no connection of another network that has sent less', async (t) => {
  const { sendPart, sendRest } = await start(t);
  const from = (address: string) => sendPart(`X-Forwarded-For: ${address}\r\nContent-Length: ${BODY_BYTES}`);
  const other = await from('2001:db8:0:1::1');
  const all = [await from('2001:db8:0:2::1'), await from('2001:db8:0:2::2'), await from('2001:db8:0:2::3')];
  assert.deepEqual(
    [other, ...all].map(({ connection }) => connection.destroyed),
    [false, true, false, false],
  );
  assert.match(await sendRest(other.client), /^HTTP\/1\.1 200/);
});

test('a body arrives in any parts, but not in single bytes', async (t) => {
  const { ask } = await start(t);
  const chunked = (sizes: readonly number[]): string =>
    [...sizes, 0].map((size) => `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`).join('');
  const sizes = Array.from({ length: 1_024 }, (_, n) => (n % 7) + 1);
  assert.match(
    await ask(chunked([...sizes, 3_000, 1])),
    new RegExp(`200[^]*\\b${sizes.reduce((a, b) => a + b) + 3_001}$`),
  );
  assert.match(await ask(chunked(Array.from({ length: 2_200 }, () => 1))), /413[^]*send at least 64 bytes in each/);
  assert.match(await ask(chunked([BODY_BYTES, 1])), /413/);
});
