import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rawServer } from '../../../test/setup/exchanges.ts';
import { send, type RequestOptions } from '../session/exchange.ts';
import { eventsOf } from './connection.ts';
import type { ServerEvent } from './server-events.ts';

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
    assert.deepEqual([(value as ServerEvent | undefined)?.event, server.sockets.length], ['hello', 2]);
    assert.match(said[0] ?? '', /^Disconnected/);
  });
