/** The middleware of packages/receiver in Express, Fastify, Hono and as a route handler of Next, over real sockets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, request as startRequest, type IncomingMessage, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import { receiveWebhooks as forExpress } from '../../packages/receiver/src/express.ts';
import { receiveWebhooks as forFastify } from '../../packages/receiver/src/fastify.ts';
import { receiveWebhooks as forHono } from '../../packages/receiver/src/hono.ts';
import { receiveWebhooks as forNext, type OnDelivery, type ReceiveOptions } from '../../packages/receiver/src/next.ts';
import { VECTORS, type Vector } from '../../scripts/receiver-vectors.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { until } from '../setup/until.ts';
import { KEY, NOW, sent } from '../clients/receiver/signed-delivery.ts';

const ends = cleanups();
type Delivery = Parameters<OnDelivery>[0];
type Given = ReceiveOptions & { onDelivery: OnDelivery };
const now = () => NOW;

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
}

const onExpress = (app: express.Express) => listen(createServer(app));
async function onFastify({ onDelivery, ...options }: Given, prepare?: (app: FastifyInstance) => void) {
  const app = fastify({ bodyLimit: 10 });
  prepare?.(app);
  await app.register(forFastify(options, onDelivery), { prefix: '/hook' });
  await app.ready();
  return listen(app.server);
}
const onFetch = (fetch: (request: Request) => Response | Promise<Response>) =>
  listen(createAdaptorServer({ fetch }) as Server);

/** Each starts a server and returns the URL of its receiver. */
const frameworks: Readonly<Record<string, (given: Given) => Promise<string>>> = {
  express: ({ onDelivery, ...options }) => onExpress(express().post('/hook', forExpress(options, onDelivery))),
  'express.json() before': ({ onDelivery, ...options }) =>
    onExpress(express().use(express.json()).post('/hook', forExpress(options, onDelivery))),
  'express.raw() before': ({ onDelivery, ...options }) =>
    onExpress(
      express()
        .use(express.raw({ type: () => true, limit: '1mb' }))
        .post('/hook', forExpress(options, onDelivery)),
    ),
  'express.json() that keeps the bytes': ({ onDelivery, ...options }) => {
    const verify = (request: object, _response: unknown, rawBody: Buffer) => void Object.assign(request, { rawBody });
    const parser = express.json({ type: ['json', '+json'], limit: '1mb', verify });
    return onExpress(express().use(parser).post('/hook', forExpress(options, onDelivery)));
  },
  fastify: (given) => onFastify(given),
  hono: ({ onDelivery, ...options }) => onFetch(new Hono().post('/hook', forHono(options, onDelivery)).fetch),
  next: ({ onDelivery, ...options }) => onFetch(forNext(options, onDelivery)),
};

type Result = { status: number; type: string | undefined; body: string };
type Posted = { headers: Vector['headers']; body: Uint8Array };

/** Posts by node:http, which sends names of headers as they are, and lists as several headers. */
async function post(url: string, { headers, body }: Posted): Promise<Result> {
  const request = startRequest(url, {
    method: 'POST',
    agent: false,
    headers: { ...headers, 'Content-Length': body.length },
  });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, type: response.headers['content-type'], body: await text(response) };
}
const codeOf = ({ body }: Result): unknown => (body === '' ? undefined : (JSON.parse(body) as { error: string }).error);
const messageOf = ({ body }: Result): string => (JSON.parse(body) as { message: string }).message;

const vectors = JSON.parse(await readFile(VECTORS, 'utf8')) as Vector[];
/** node:http sends Latin-1 alone; the bodies of the other two are not the JSON that their type says. */
const isSendable = ({ name, headers }: Vector): boolean =>
  Object.values(headers)
    .flat()
    .every((value) => /^[\x20-\xff]*$/.test(value)) && !['an empty body', 'a body that is not text'].includes(name);

for (const [name, start] of Object.entries(frameworks))
  test(`${name}: genuine deliveries reach the application, others are rejected with what is wrong`, async () => {
    const sendable = vectors.filter(isSendable);
    assert.ok(sendable.length > 60, String(sendable.length));
    for (const vector of sendable) {
      const [delivered, errors]: [Delivery[], unknown[]] = [[], []];
      const url = await start({
        keys: vector.keys,
        headerPrefix: vector.headerPrefix,
        now: () => new Date(vector.now * 1000),
        onError: (error) => errors.push(error),
        onDelivery: (delivery) => delivered.push(delivery),
      });
      const result = await post(url, { headers: vector.headers, body: Buffer.from(vector.bodyBase64, 'base64') });
      if ('rejected' in vector) {
        assert.equal(codeOf(result), vector.rejected, vector.name);
        assert.equal(result.status, vector.rejected === 'no_key' ? 500 : 401, vector.name);
        assert.match(result.type ?? '', /^application\/json/);
        assert.deepEqual([delivered.length, errors.length], [0, 1], vector.name);
        continue;
      }
      const { accepted } = vector;
      const body = Buffer.from(accepted.bodyBase64, 'base64');
      assert.deepEqual([result.status, result.body, errors], [204, '', []], vector.name);
      const { json: _json, body: got, payload, timestamp, ...rest } = delivered[0] ?? assert.fail(vector.name);
      const { bodyBase64: _body, timestamp: sentAt, ...expected } = accepted;
      assert.deepEqual([rest, timestamp.getTime() / 1000], [expected, sentAt], vector.name);
      assert.deepEqual(Buffer.from(got), body, vector.name);
      assert.deepEqual(payload, accepted.contentType.includes('json') ? JSON.parse(body.toString()) : undefined);
    }
  });

const quiet = { keys: [KEY], now, onError: () => undefined };

for (const [name, start] of Object.entries(frameworks)) {
  test(`${name}: what the application throws is a 500 without its message, which goes to onError`, async () => {
    const errors: unknown[] = [];
    const failure = new Error('password=secret');
    const onDelivery = () => Promise.reject(failure);
    const url = await start({ ...quiet, onError: (error) => errors.push(error), onDelivery });
    const result = await post(url, sent());
    assert.deepEqual([result.status, codeOf(result)], [500, 'failed']);
    assert.doesNotMatch(result.body, /secret/);
    assert.deepEqual(errors, [failure]);
  });

  test(`${name}: a body of the limit is accepted, and a longer one gets a 413 that names the limit`, async () => {
    const bodyBytes = 50_000;
    const got: Delivery[] = [];
    const url = await start({ ...quiet, bodyBytes, onDelivery: (delivery) => got.push(delivery) });
    const padded = (bytes: number) => sent({ body: Buffer.from(`{"a":"${'x'.repeat(bytes - 8)}"}`) });
    assert.equal((await post(url, padded(bodyBytes))).status, 204);
    for (const bytes of [bodyBytes + 1, bodyBytes * 10]) {
      const result = await post(url, padded(bytes));
      assert.deepEqual([result.status, codeOf(result)], [413, 'too_large']);
      assert.match(messageOf(result), /bodyBytes/);
    }
    assert.equal(got.length, 1);
  });
}

for (const name of ['express', 'fastify', 'hono', 'next']) {
  const start = frameworks[name] ?? assert.fail(name);
  const begin = (url: string) =>
    startRequest(url, { method: 'POST', agent: false, headers: { ...sent().headers, 'Transfer-Encoding': 'chunked' } });

  test(`${name}: a body without an end is cut off`, async () => {
    const url = await start({ ...quiet, bodyBytes: 1_000, onDelivery: () => assert.fail('delivered') });
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname)
      .on('error', () => undefined)
      .resume();
    const closed = once(socket, 'close');
    socket.write('POST /hook HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n');
    const chunk = `${(10_000).toString(16)}\r\n${'x'.repeat(10_000)}\r\n`;
    for (let sentChunks = 0; sentChunks < 100 && !socket.destroyed; sentChunks += 1)
      await new Promise<void>((resolve) => socket.write(chunk, () => resolve()));
    await closed;
  });

  test(`${name}: a body that ends too early is reported, and not as a failure of the application`, async () => {
    const codes: unknown[] = [];
    const onError = (error: unknown) => codes.push((error as { code?: unknown }).code);
    const url = await start({ ...quiet, onError, onDelivery: () => assert.fail('delivered') });
    const request = begin(url);
    request.on('error', () => undefined);
    await new Promise<void>((resolve) => request.write('{"id":', () => resolve()));
    request.destroy();
    await until(
      async () => codes,
      ({ length }) => length > 0,
    );
    assert.deepEqual(codes, ['incomplete']);
  });
}

const ignored = () => assert.fail('delivered');
const parsedBefore: Readonly<Record<string, { start: () => Promise<string>; remedy: RegExp }>> = {
  express: {
    start: () =>
      onExpress(
        express()
          .use(express.json({ type: ['json', '+json'] }))
          .post('/hook', forExpress(quiet, ignored)),
      ),
    remedy: /above app\.use\(express\.json\(\)\).*rawBody/,
  },
  fastify: {
    start: () =>
      onFastify({ ...quiet, onDelivery: ignored }, (app) =>
        app.addHook('preParsing', async (_request, _reply, payload) => void (await buffer(payload))),
      ),
    remedy: /preParsing/,
  },
  hono: {
    start: () => {
      const parse = async (context: { req: { json: () => Promise<unknown> } }, next: () => Promise<void>) => {
        await context.req.json();
        await next();
      };
      return onFetch(new Hono().use(parse).post('/hook', forHono(quiet, ignored)).fetch);
    },
    remedy: /context\.req\.json\(\)/,
  },
  next: {
    start: () =>
      onFetch(async (request) => {
        await request.json();
        return forNext(quiet, ignored)(request);
      }),
    remedy: /request\.clone\(\)/,
  },
};

for (const [name, { start, remedy }] of Object.entries(parsedBefore))
  test(`${name}: a body that was parsed before is a 500 with a remedy`, async () => {
    const result = await post(await start(), sent());
    assert.deepEqual([result.status, codeOf(result)], [500, 'not_raw']);
    assert.match(messageOf(result), remedy);
  });

test('deliveries of a running Halcyon arrive with typed bodies; a failure of the application keeps the delivery pending', async () => {
  const app = await startTestApp();
  const got: string[] = [];
  let isBroken = false;
  const onDelivery: OnDelivery = ({ event, payload }) => {
    if (isBroken) throw new Error('no database');
    if (event === 'transaction/created') got.push(`${payload.id} ${payload._links.self.href}`);
  };
  const url = await onExpress(express().post('/hook', forExpress({ ...quiet, now: app.clock.now }, onDelivery)));
  const store = `/stores/${app.storeId}`;
  const body = { name: 'Hook', format: 'json', encryption_key: KEY, url, events: ['transaction/created'] };
  const made = await app.api('POST', `${store}/webhooks`, { body });
  assert.equal(made.status, 201, await made.text());
  const publish = async (id: number) => {
    const event = { event: 'transaction/created', resource: { id, total_order: 5 } };
    const response = await app.api('POST', `${store}/events`, { token: app.platformToken, body: event });
    assert.equal(response.status, 201, await response.text());
  };
  await publish(7);
  await until(
    async () => got.length,
    (count) => count === 1,
  );
  assert.deepEqual(got, [`7 ${app.baseUrl}${store}/transactions/7`]);
  isBroken = true;
  await publish(8);
  const attempts = await until(
    () => app.sql<{ code: number; body: string }[]>`
      select response_code as code, response_body as body from attempt_log where response_code = 500`,
    (rows) => rows.length === 1,
  );
  assert.match(attempts[0]?.body ?? '', /could not process/);
  assert.doesNotMatch(attempts[0]?.body ?? '', /database/);
});

const handshakes: Readonly<Record<string, (given: Given) => Promise<string>>> = {
  express: ({ onDelivery, ...options }) => onExpress(express().all('/hook', forExpress(options, onDelivery))),
  fastify: (given) => onFastify(given),
  hono: ({ onDelivery, ...options }) =>
    onFetch(new Hono().on(['POST', 'OPTIONS'], '/hook', forHono(options, onDelivery)).fetch),
  next: ({ onDelivery, ...options }) => onFetch(forNext(options, onDelivery)),
};

for (const [name, start] of Object.entries(handshakes))
  test(`${name}: a service gets permission to send only if it is the allowed one`, async () => {
    const errors: unknown[] = [];
    const ask = async (allowedOrigin: string | undefined, headers: Record<string, string>) => {
      const onError = (error: unknown) => errors.push(error);
      const url = await start({ ...quiet, onError, allowedOrigin, onDelivery: () => assert.fail() });
      const response = await fetch(url, { method: 'OPTIONS', headers });
      return [response.status, response.headers.get('webhook-allowed-origin')];
    };
    const asking = { 'WebHook-Request-Origin': 'Shop.example.com' };
    assert.deepEqual(await ask('shop.example.com', asking), [204, 'shop.example.com']);
    assert.deepEqual(await ask('*', asking), [204, '*']);
    assert.deepEqual(await ask('example.com', asking), [405, null]);
    assert.deepEqual(await ask('', { 'WebHook-Request-Origin': '' }), [405, null]);
    assert.deepEqual(await ask('*', {}), [405, null]);
    const [status, allowed] = await ask(undefined, asking);
    assert.ok(allowed === null && (status === 405 || status === 404), String(status));
    assert.deepEqual(errors, []);
  });
