/** A faulty HTTP proxy between a publisher or a loader and Halcyon. */
import { once } from 'node:events';
import { createServer, request as send, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Cleanups } from './cleanups.ts';

/**
 * What happens to a request. `busy`: 429 with `Retry-After`. `failed`: 503 without it. `refused`: the connection is closed, and
 * the server does not get the request. `lost`: the server gets it, and the response is dropped. `held`: the same, but the
 * response is sent by `release`. `page`: 200 with a page of another server. `long`: 8 MiB of spaces
 * follow the response.
 */
export type Fate = 'busy' | 'failed' | 'refused' | 'lost' | 'held' | 'page' | 'long' | undefined;

export type Post = { storeId: string; key: string | undefined; events: number; atMs: number; body: string };

export type Gate = {
  url: string;
  /** Decides about a request with events, by the number of those before it. */
  fate: (n: number, post: Post) => Fate;
  /** The requests with events. */
  posts: Post[];
  /** The number of requests for a token. */
  tokens: number;
  /** Stores with more than one request at the same time, which the publisher must not send. */
  overlaps: number;
  /** The largest number of requests with events at once. */
  mostAtOnce: number;
  /** Sends the responses that are held, and holds no more. */
  release: () => void;
  /** Replaces the server behind the gate. */
  target: string;
};

const bodyOf = async (message: IncomingMessage): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(message as AsyncIterable<Buffer>));

export async function startGate(target: string, ends: Cleanups): Promise<Gate> {
  const active = new Map<string, number>();
  let hold = Promise.withResolvers<void>();
  const forward = async (request: IncomingMessage, body: Buffer) => {
    const { method, headers } = request;
    const asked = send(gate.target + request.url, { method, headers });
    asked.end(body);
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    return { answer, text: await bodyOf(answer) };
  };
  const pass = async (request: IncomingMessage, response: ServerResponse, body: Buffer, fate: Fate) => {
    const { promise: released } = hold;
    if (fate === 'page') return void response.end('<html>Sign in to the network</html>');
    if (fate === 'busy') return void response.writeHead(429, { 'Retry-After': '2' }).end();
    if (fate === 'failed') return void response.writeHead(503).end();
    if (fate === 'refused') return void response.destroy();
    const { answer, text } = await forward(request, body);
    if (fate === 'lost') return void response.destroy();
    if (fate === 'held') await released;
    if (fate === 'long') response.writeHead(answer.statusCode ?? 0).write(text);
    else response.writeHead(answer.statusCode ?? 0, answer.headers);
    response.end(fate === 'long' ? Buffer.alloc(8 * 1024 * 1024, ' ') : text);
  };
  const publish = async (request: IncomingMessage, response: ServerResponse, storeId: string) => {
    const count = (active.get(storeId) ?? 0) + 1;
    active.set(storeId, count);
    if (count > 1) gate.overlaps += 1;
    gate.mostAtOnce = Math.max(gate.mostAtOnce, active.size);
    const leave = () => (count === 1 ? active.delete(storeId) : active.set(storeId, count - 1));
    try {
      const body = await bodyOf(request);
      const key = request.headers['idempotency-key'] as string | undefined;
      const isArray = request.headers['content-type'] === 'application/json';
      const text = body.toString();
      const events = isArray ? (JSON.parse(text) as unknown[]).length : text.split('\n').length;
      const post = { storeId, key, events, atMs: performance.now(), body: body.toString() };
      gate.posts.push(post);
      await pass(request, response, body, gate.fate(gate.posts.length - 1, post));
    } finally {
      leave();
    }
  };
  const server = createServer((request, response) => {
    const [, storeId] = /^\/stores\/(\d+)\/(?:events|load)$/.exec(request.url ?? '') ?? [];
    const isToken = request.url === '/token';
    if (isToken) gate.tokens += 1;
    const act = async () =>
      storeId === undefined
        ? pass(request, response, await bodyOf(request), undefined)
        : publish(request, response, storeId);
    act().catch(() => response.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.after(async () => {
    gate.release();
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const gate: Gate = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fate: () => undefined,
    posts: [],
    tokens: 0,
    overlaps: 0,
    mostAtOnce: 0,
    release: () => {
      gate.fate = () => undefined;
      hold.resolve();
      hold = Promise.withResolvers<void>();
    },
    target,
  };
  return gate;
}
