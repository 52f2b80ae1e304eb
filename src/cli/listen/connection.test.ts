import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rawServer } from '../../../test/setup/exchanges.ts';
import { until } from '../../../test/setup/until.ts';
import { send } from '../session/exchange.ts';
import { eventsOf } from './connection.ts';
import type { ServerEvent } from './server-events.ts';

const STREAM =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nevent: hello\ndata: {}\n\n';
const HALF_A_REFUSAL = 'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 100\r\n\r\n{';

const api = { open: (address: string, asked = {}) => send(address, asked) };

for (const [what, first] of [
  ['that never answers', ''],
  ['that never ends its error response', HALF_A_REFUSAL],
] as const)
  test(`the client reconnects to a server ${what}`, async (t) => {
    const server = await rawServer((socket, n) => void socket.on('data', () => socket.write(n === 1 ? first : STREAM)));
    const stop = new AbortController();
    t.after(() => stop.abort());
    const said: string[] = [];
    const line = {
      api,
      stop: stop.signal,
      random: () => 0,
      warn: (text: string) => void said.push(text),
      answerMs: 50,
    };
    let received: string | undefined;
    void eventsOf(line, `${server.url}/listen`)
      .next()
      .then(({ value }) => (received = (value as ServerEvent | undefined)?.event));
    const event = await until(
      async () => received,
      (one) => one !== undefined,
    );
    assert.deepEqual([event, server.sockets.length], ['hello', 2]);
    assert.match(said[0] ?? '', /^Disconnected/);
  });
