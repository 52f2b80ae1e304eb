/**
 * Handshakes and requests of documents on real sockets: what an endpoint must respond, what it may not do to this process, and how often it is asked.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createTcpServer } from 'node:net';
import { after, test } from 'node:test';
import { createLog } from '#core/log.ts';
import { testClock, standingClock } from '../../../test/setup/clock.ts';
import { loopback, portOf, rawServer } from '../../../test/setup/exchanges.ts';
import { resolverOf, startNameServer, type NameServer } from '../../../test/setup/name-server.ts';
import { startReceiver } from '../../../test/setup/receiver.ts';
import { Handshakes, type HandshakeSettings, DocumentRequests } from './single-requests.ts';
import { createGuard } from './http/outbound-guard.ts';
import { startDocumentHost } from '../../../test/setup/document-host.ts';
import { until } from '../../../test/setup/until.ts';

const ORIGIN = 'Shop.example.com';
const settings: HandshakeSettings = {
  requestOrigin: ORIGIN,
  userAgent: 'Halcyon/test',
  connectTimeoutMs: 5_000,
  idleSocketMs: 20_000,
  connectionAgeMs: 300_000,
  tlsSessions: 10,
  answerKeptBytes: 16 * 1024,
  handshakesAtOnce: 8,
  handshakesAtOnceOfAsker: 2,
  handshakesAtOnceOfApps: 4,
  handshakeTimeoutMs: 5_000,
  handshakesPerMinuteOfStore: 1_000,
  handshakesPerMinuteOfHost: 1_000,
};

function handshakesWith(own: Partial<HandshakeSettings> = {}, { guard = loopback, clock = testClock() } = {}) {
  const handshakes = new Handshakes({ guard, clock, log: createLog('error') }, { ...settings, ...own });
  after(() => handshakes.stop());
  return handshakes;
}

const guardWith = (names: NameServer) => createGuard({ allowed: ['127.0.0.0/8'] }, resolverOf(names));
const handshakes = handshakesWith();
const receiver = await startReceiver();
const hook = `${receiver.url}/hook?token=secret`;

const answerWith = (status: number, headers: Record<string, string | string[]>) =>
  receiver.answer((_got, response) => response.writeHead(status, headers).end('a private page'));

const documentHost = await startDocumentHost();
const silentUrl = documentHost.respondAt('/silent', () => {});
const slowUrl = documentHost.respondAt('/slow', (response) => {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  const writing = setInterval(() => response.write(' '), 5);
  response.on('close', () => clearInterval(writing));
});

// Handshakes

test('the endpoint gets an OPTIONS request with the name of the service, and nothing of the webhook but its url', async () => {
  answerWith(200, { 'WebHook-Allowed-Origin': '*' });
  assert.deepEqual(await handshakes.ask(hook, 1), { kind: 'allowed' });
  const { method, path, headers, body } = receiver.got.at(-1) ?? assert.fail();
  assert.deepEqual([method, path, body.length], ['OPTIONS', '/hook?token=secret', 0]);
  assert.equal(headers['webhook-request-origin'], ORIGIN);
  const names = ['accept-encoding', 'connection', 'host', 'user-agent', 'webhook-request-origin'];
  assert.deepEqual(Object.keys(headers).toSorted(), names);
});

const permitted: [string, number, Record<string, string>][] = [
  ['its name', 204, { 'WebHook-Allowed-Origin': ORIGIN }],
  ['its name in other letters', 200, { 'webhook-allowed-origin': ORIGIN.toUpperCase() }],
  ['every origin, with a rate', 299, { 'WebHook-Allowed-Origin': '*', 'WebHook-Allowed-Rate': '10' }],
];
for (const [what, status, headers] of permitted) {
  test(`permission: ${status} with ${what}`, async () => {
    answerWith(status, headers);
    assert.deepEqual(await handshakes.ask(hook, 1), { kind: 'allowed' });
  });
}

const denied: [string, number, Record<string, string | string[]>][] = [
  ['no header', 204, {}],
  ['an empty header', 204, { 'WebHook-Allowed-Origin': '' }],
  ['another name', 200, { 'WebHook-Allowed-Origin': 'example.com' }],
  ['a name that ends with it', 200, { 'WebHook-Allowed-Origin': `not-${ORIGIN}` }],
  ['a list', 200, { 'WebHook-Allowed-Origin': `${ORIGIN}, example.com` }],
  ['two headers', 200, { 'WebHook-Allowed-Origin': [ORIGIN, 'example.com'] }],
  ['the header of CORS', 200, { 'Access-Control-Allow-Origin': '*' }],
  ['the header in another one', 200, { 'X-Seen': 'webhook-allowed-origin: *' }],
  ['permission', 405, { 'WebHook-Allowed-Origin': '*' }],
  ['permission', 410, { 'WebHook-Allowed-Origin': '*' }],
  ['permission', 500, { 'WebHook-Allowed-Origin': '*' }],
];
for (const [what, status, headers] of denied) {
  test(`no permission: ${status} with ${what}`, async () => {
    answerWith(status, headers);
    assert.deepEqual(await handshakes.ask(hook, 1), { kind: 'refused', status });
  });
}

test('a redirect is no permission, and is not followed', async () => {
  const other = await startReceiver();
  answerWith(307, { Location: other.url, 'WebHook-Allowed-Origin': '*' });
  assert.deepEqual(await handshakes.ask(hook, 1), { kind: 'refused', status: 307 });
  assert.equal(other.got.length, 0);
});

test('an endless body is not read', async () => {
  receiver.answer((_got, response) => {
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(16 * 1024, 'x')));
    };
    response.on('drain', more).writeHead(200, { 'WebHook-Allowed-Origin': '*' });
    more();
  });
  assert.deepEqual(await handshakes.ask(hook, 1), { kind: 'allowed' });
});

test('a closed port, silence, another protocol and a name that does not exist have the same result', async () => {
  const gone = createTcpServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const closed = `http://127.0.0.1:${portOf(gone)}`;
  gone.close();
  await once(gone, 'close');
  const silent = await rawServer(() => {});
  const other = await rawServer((socket) => void socket.end('220 mail.internal ESMTP\r\n'));
  const names = await startNameServer();
  names.say(() => ({ code: 'NXDOMAIN' }));
  const patient = handshakesWith({}, { guard: guardWith(names) });
  for (const url of [closed, other.url, 'https://shop.example.com/hook'])
    assert.deepEqual([url, await patient.ask(url, 1)], [url, { kind: 'no_response' }]);
  const brief = handshakesWith({ handshakeTimeoutMs: 100 }, { guard: guardWith(names) });
  assert.deepEqual(await brief.ask(silent.url, 1), { kind: 'no_response' });
});

test('the guard decides about each connection', async () => {
  const strict = handshakesWith({}, { guard: createGuard({}, resolverOf()) });
  const before = receiver.got.length;
  const result = await strict.ask(hook, 1);
  assert.deepEqual(result, { kind: 'blocked', why: 'deliveries may not reach 127.0.0.1' });
  assert.equal(receiver.got.length, before);
});

test('a store and a host have limits a minute, which others do not use up', async () => {
  const clock = standingClock();
  const limited = handshakesWith({ handshakesPerMinuteOfStore: 2, handshakesPerMinuteOfHost: 3 }, { clock });
  answerWith(204, { 'WebHook-Allowed-Origin': '*' });
  const { port } = new URL(receiver.url);
  const kindOf = async (host: string, store: number) => (await limited.ask(`http://${host}:${port}/`, store)).kind;
  const before = receiver.got.length;
  assert.deepEqual([await kindOf('127.0.0.1', 1), await kindOf('127.0.0.1', 1)], ['allowed', 'allowed']);
  assert.deepEqual(await limited.ask(hook, 1), { kind: 'limited', waitSeconds: 30 });
  assert.deepEqual([await kindOf('127.0.0.1', 2), await kindOf('127.0.0.1', 2)], ['allowed', 'limited']);
  assert.equal(await kindOf('localhost', 2), 'allowed');
  assert.equal(receiver.got.length, before + 4);
  clock.advance(30_000);
  assert.equal(await kindOf('127.0.0.1', 1), 'allowed');
});

test('apps, which anybody may register, keep no store from asking: neither at once, nor the same host', async () => {
  const clock = standingClock();
  const busy = handshakesWith({ handshakesPerMinuteOfHost: 6 }, { clock });
  receiver.answer(() => {});
  const before = receiver.got.length;
  const waiting: ReturnType<typeof busy.ask>[] = [];
  for (const [askers, refused] of [
    [['a', 'a'], 'a'],
    [['b', 'b'], 'c'],
    [[1, 1], 1],
    [[2, 2], 3],
  ] as const) {
    waiting.push(...askers.map((asker) => busy.ask(hook, asker)));
    await receiver.until(before + waiting.length);
    assert.equal((await busy.ask(hook, refused)).kind, 'limited', `${refused} after ${waiting.length}`);
  }
  await busy.stop();
  assert.deepEqual(new Set((await Promise.all(waiting)).map(({ kind }) => kind)), new Set(['stopping']));
});

test('handshakes of a process are limited at once, and a stop ends those that wait', async () => {
  const slow = handshakesWith({ handshakesAtOnce: 1 });
  receiver.answer(() => {});
  const count = receiver.got.length;
  const waiting = slow.ask(hook, 1);
  await receiver.until(count + 1);
  assert.equal((await slow.ask(hook, 2)).kind, 'limited');
  await slow.stop();
  assert.deepEqual(await waiting, { kind: 'stopping' });
  assert.deepEqual(await slow.ask(hook, 1), { kind: 'stopping' });
  assert.equal(receiver.got.length, count + 1);
});

// Requests of documents

function documentsWith(documentTimeoutMs: number): DocumentRequests {
  const runtime = { guard: loopback, clock: testClock(), log: createLog('silent') };
  const documents = new DocumentRequests(runtime, { ...settings, documentTimeoutMs });
  after(() => documents.stop());
  return documents;
}

const later = { kind: 'failed', why: 'it cannot be fetched now; try again shortly' };

test('a document has its headers, also after those of a large policy', async () => {
  const url = documentHost.respondAt('/document', (response) =>
    response
      .writeHead(
        200,
        [
          ['Content-Security-Policy', 'x'.repeat(6 * 1024)],
          ['Content-Type', 'Application/JSON'],
          ['Cache-Control', 'public'],
          ['Cache-Control', 'max-age=9'],
        ].flat(),
      )
      .end('{}'),
  );
  const fetched = await documentsWith(5_000).fetch(url);
  assert.ok(fetched.kind === 'document');
  assert.equal(fetched.text, '{}');
  assert.equal(fetched.headers.get('cache-control'), 'public, max-age=9');
});

test('a server that does not respond, or writes a byte at a time, ends at the time limit', async () => {
  const documents = documentsWith(100);
  for (const url of [silentUrl, slowUrl])
    assert.deepEqual(await documents.fetch(url), { kind: 'failed', why: 'there was no valid response in time' });
});

test('at most 16 are fetched at once, and a stop ends them', async () => {
  const documents = documentsWith(60_000);
  const before = documentHost.got.length;
  const fetching = Array.from({ length: 16 }, async () => documents.fetch(silentUrl));
  assert.deepEqual(await documents.fetch(documentHost.publish('/seventeenth')), later);
  await until(
    async () => documentHost.got.length,
    (count) => count === before + 16,
  );
  await documents.stop();
  assert.deepEqual(
    await Promise.all(fetching),
    Array.from({ length: 16 }, () => later),
  );
  assert.deepEqual(await documents.fetch(silentUrl), later);
  assert.equal(documentHost.got.length, before + 16);
});
