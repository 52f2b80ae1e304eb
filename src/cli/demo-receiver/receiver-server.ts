/**
 * The demo's receiver, an example of an integrator's app: verifies each delivery from the raw body, prints a line, keeps the last ones, and
 * shows the authorization code of the redirect. Runs in a worker thread, so that its errors cannot end the server.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { isLoopback } from '#core/loopback.ts';
import { handshakeHeaders, verifyDelivery, WebhookError } from '#receiver';
import { Worker } from 'node:worker_threads';
import type { Running } from '#core/lifecycle.ts';

type Received = { verified: boolean; headers: Record<string, string>; body: Buffer };

/** The path of an endpoint that fails, in the played day for its last half hour. */
export const FAILING_PATH = '/warehouse';
const FAILING_MS = 30 * 60_000;
const FAILURE = 'the stock database is read-only\n';

const RECEIVED_MAX = 50;
const BODY_BYTES = 1024 * 1024;

const sentAtOf = (headers: Record<string, string>): number => Number(headers['webhook-timestamp']) * 1_000;

/** Verifies a delivery with the package for integrators. */
async function isVerified(
  headers: Record<string, string>,
  body: Buffer,
  { key, headerPrefix, playedUntilMs }: { key: string; headerPrefix: string; playedUntilMs: number },
): Promise<boolean> {
  const sentAtMs = sentAtOf(headers);
  // Deliveries of the played day are verified at the time of its clock.
  const now = sentAtMs < playedUntilMs ? () => new Date(sentAtMs) : undefined;
  try {
    await verifyDelivery({ headers, body, keys: [key], headerPrefix, now });
    return true;
  } catch (error) {
    if (error instanceof WebhookError) return false;
    throw error;
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function callbackPage(query: URLSearchParams): string {
  const code = query.get('code');
  const main =
    code === null
      ? html`<div class="card">
          <h1>No access</h1>
          <p>${query.get('error')}: ${query.get('error_description')}</p>
        </div>`
      : html`<div class="card">
          <h1>Code received</h1>
          <p>Exchange it once, within 30 seconds, at the token endpoint:</p>
          <p><code id="code">${code}</code></p>
          <p class="soft">state: <code>${query.get('state')}</code></p>
        </div>`;
  return shell({ title: 'Demo app', main });
}

function send(response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  response.writeHead(status, { 'Content-Type': type }).end(body);
}

/** Prevents DNS rebinding: a page at a foreign name that resolves to loopback must not read the deliveries. */
function isOwnHost(host: string | undefined): boolean {
  const url = URL.parse(`http://${host ?? ''}/`);
  return url !== null && isLoopback(url.hostname);
}

/** Creates the receiver's server, which does not listen yet. Calls `print` with a line for each delivery. */
export function createDemoReceiver(options: {
  key: string;
  headerPrefix: string;
  /** The end of the day that is played at the first start (cli/demo.ts), in ms since 1970; 0 at later starts. */
  playedUntilMs: number;
  print: (text: string) => void;
}): Server {
  const received: Received[] = [];

  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await readBody(request);
    if (body === undefined) return send(response, 413, 'text/plain', 'too large\n');
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    const verified = await isVerified(headers, body, options);
    received.push({ verified, headers, body });
    if (received.length > RECEIVED_MAX) received.shift();
    const event = headers[`${options.headerPrefix}-webhook-event`.toLowerCase()];
    const isFailing = request.url === FAILING_PATH && sentAtOf(headers) >= options.playedUntilMs - FAILING_MS;
    if (isFailing) return send(response, 500, 'text/plain', FAILURE);
    options.print(
      `← ${event} · ${body.length} bytes · ${verified ? 'signature verified' : 'SIGNATURE NOT VERIFIED'} · ${headers['webhook-id']}`,
    );
    return send(response, verified ? 200 : 401, 'text/plain', verified ? 'ok\n' : 'signature not verified\n');
  };

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    if (!isOwnHost(request.headers.host)) return send(response, 421, 'text/plain', 'use the host localhost\n');
    if (request.method === 'POST') return receive(request, response);
    if (request.method === 'OPTIONS')
      return void response.writeHead(204, handshakeHeaders({ headers: request.headers, allowedOrigin: '*' })).end();
    const url = URL.parse(request.url ?? '/', 'http://localhost');
    if (url?.pathname === '/callback')
      return send(response, 200, 'text/html; charset=utf-8', callbackPage(url.searchParams));
    if (url?.pathname === '/last') {
      const last = received.at(-1);
      return send(
        response,
        last === undefined ? 404 : 200,
        last?.headers['content-type'] ?? 'text/plain',
        last?.body ?? '',
      );
    }
    const list = received.map(({ verified, headers, body }) => ({ verified, headers, body: body.toString() }));
    return send(response, 200, 'application/json', `${JSON.stringify(list.toReversed(), null, 2)}\n`);
  };

  return createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });
}

export type WorkerData = { port: number; key: string; headerPrefix: string; playedUntilMs: number };
/** Messages of the thread: the port or an error, then a line for each delivery. */
export type ThreadMessage = { port: number } | { code: string; message: string } | { line: string };

export type DemoReceiver = Running & { port: number };

/** Starts the receiver on loopback at `port`, or at a free port if it is 0. Throws an error with the `code` of Node. */
export async function startDemoReceiver({
  print,
  ...workerData
}: WorkerData & { print: (text: string) => void }): Promise<DemoReceiver> {
  const thread = new Worker(new URL('./thread.ts', import.meta.url), { workerData });
  const { promise: listening, resolve, reject } = Promise.withResolvers<number>();
  thread.on('message', (message: ThreadMessage) => {
    if ('line' in message) print(message.line);
    else if ('port' in message) resolve(message.port);
    else reject(Object.assign(new Error(message.message), { code: message.code }));
  });
  thread.once('error', (error: Error) => {
    reject(error);
    print(`The demo receiver ended: ${error.message}. Deliveries to it fail until the next start.`);
  });
  const stop = async (): Promise<void> => void (await thread.terminate());
  try {
    return { port: await listening, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
