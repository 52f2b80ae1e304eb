/** A real receiver on loopback that records requests and returns the responses of the test. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { after } from 'node:test';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { PATIENCE_MS } from './until.ts';

/** `atMs`: the arrival on the monotonic clock. */
export type Got = { method: string; path: string; headers: IncomingHttpHeaders; body: Buffer; atMs: number };
export type Answerer = (got: Got, response: ServerResponse) => void;

export type Receiver = {
  url: string;
  got: Got[];
  /** The number of received requests without a response. */
  open: () => number;
  answer: (answerer: Answerer) => void;
  /** Resolves when `count` requests have arrived in total. Rejects if none arrives for `PATIENCE_MS`. */
  until: (count: number) => Promise<void>;
  close: () => Promise<void>;
};

const ok: Answerer = (_got, response) => void response.writeHead(204).end();

export async function startReceiver(
  context: { after: (fn: () => Promise<void>) => void } = { after },
): Promise<Receiver> {
  const got: Got[] = [];
  const waiting = new Set<() => void>();
  let answerer = ok;
  let open = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const one = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks),
        atMs: performance.now(),
      };
      got.push(one);
      open += 1;
      response.once('close', () => (open -= 1));
      answerer(one, response);
      for (const resolve of waiting) resolve();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    if (server.listening) {
      server.close();
      await once(server, 'close');
    }
  };
  context.after(close);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    got,
    open: () => open,
    answer: (next) => (answerer = next),
    until: async (count) => {
      while (got.length < count) {
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        waiting.add(resolve);
        const inVain = () => reject(new Error(`Waited in vain: ${got.length} of ${count} requests have arrived`));
        const timer = setTimeout(inVain, PATIENCE_MS);
        await promise.finally(() => clearTimeout(timer));
        waiting.clear();
      }
    },
    close,
  };
}
