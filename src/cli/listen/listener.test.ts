import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rawServer } from '../../../test/setup/exchanges.ts';
import { send, type RequestOptions } from '../session/json-request.ts';
import { eventsOf, eventsIn } from './listener.ts';

const STREAM =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nevent: hello\ndata: {}\n\n';
const HALF_A_REFUSAL = 'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 100\r\n\r\n{';

const ANSWER_MS = 30_000;

for (const [what, first] of [
  ['that never answers', ''],
  ['that never ends its error response', HALF_A_REFUSAL],
] as const)
  test(`the client reconnects to a server ${what}`, async (t) => {
    // The time limit passes only by `tick`: a real one could also pass for the second connection. Pauses between connections are real.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const isAsked = Promise.withResolvers<void>();
    const server = await rawServer((socket, n) =>
      socket.on('data', () => {
        socket.write(n === 1 ? first : STREAM);
        isAsked.resolve();
      }),
    );
    const stop = new AbortController();
    t.after(() => stop.abort());
    const said: string[] = [];
    const isOpen = Promise.withResolvers<void>();
    const signals: (AbortSignal | undefined)[] = [];
    const api = {
      open: async (address: string, asked: Pick<RequestOptions, 'signal'> = {}) => {
        signals.push(asked.signal);
        const response = await send(address, asked);
        isOpen.resolve();
        return response;
      },
    };
    const line = { api, stop: stop.signal, random: () => 0, warn: (text: string) => void said.push(text) };
    const received = eventsOf(line, `${server.url}/listen`).next();
    await (first === '' ? isAsked.promise : isOpen.promise);
    t.mock.timers.tick(ANSWER_MS - 1);
    assert.equal(signals[0]?.aborted, false);
    t.mock.timers.tick(1);
    assert.equal(signals[0]?.aborted, true);
    const { value } = await received;
    assert.deepEqual([(value as { event?: string } | undefined)?.event, server.sockets.length], ['hello', 2]);
    assert.match(said[0] ?? '', /^Disconnected/);
  });

const TEXT =
  'retry: 1000\n\nid: 7\nevent: delivery\ndata: {"a":"ä"}\n\n: still here\n\nevent: goodbye\r\ndata: 1\r\ndata: 2\r\n\r\n';
const EVENTS = [
  { id: '7', event: 'delivery', data: '{"a":"ä"}' },
  { id: undefined, event: 'goodbye', data: '1\n2' },
];

function piecesOf(size: number): Uint8Array<ArrayBuffer>[] {
  const bytes = new TextEncoder().encode(TEXT);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.slice(n * size, (n + 1) * size));
}

for (const size of [1, 7, 1000]) {
  test(`events are the same for any chunk size: ${size} bytes`, async () => {
    const body = ReadableStream.from<Uint8Array<ArrayBuffer>>(piecesOf(size));
    assert.deepEqual(await Array.fromAsync(eventsIn(body, 5_000)), EVENTS);
  });
}

test('an event without an end is not kept for ever', async () => {
  const piece = new TextEncoder().encode(`data: ${'x'.repeat(1024 * 1024)}`);
  const body = ReadableStream.from<Uint8Array<ArrayBuffer>>(Array.from({ length: 10 }, () => piece));
  await assert.rejects(Array.fromAsync(eventsIn(body, 5_000)), /max buffer size/);
});

test('a connection without any data for too long is closed', async (t) => {
  // Time passes only by `tick`: a real limit may pass while the first events are read.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => {
      piecesOf(1000).forEach((piece) => controller.enqueue(piece));
      setTimeout(() => piecesOf(1000).forEach((piece) => controller.enqueue(piece)), 51);
    },
  });
  const events = eventsIn(body, 50);
  assert.deepEqual([(await events.next()).value, (await events.next()).value], EVENTS);
  const silent = assert.rejects(events.next(), /the connection is silent/);
  t.mock.timers.tick(50);
  t.mock.timers.tick(1);
  await silent;
});
