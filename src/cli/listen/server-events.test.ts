import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsIn } from './server-events.ts';

const TEXT =
  'retry: 1000\n\nid: 7\nevent: delivery\ndata: {"a":"ä"}\n\n: still here\n\nevent: goodbye\r\ndata: 1\r\ndata: 2\r\n\r\n';
const EVENTS = [
  { event: 'delivery', data: '{"a":"ä"}' },
  { event: 'goodbye', data: '1\n2' },
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
