/** `/metrics` in Prometheus' text format, and the health, on a port of their own: for the operator's network, not for the world. */
import { createServer, type ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import type { Health } from '#core/health.ts';
import type { Running } from '#core/lifecycle.ts';

type Answer = { status: number; type: string; body: string };

const json = (status: number, value: object): Answer => ({
  status,
  type: 'application/json',
  body: JSON.stringify(value),
});

const send = (response: ServerResponse, { status, type, body }: Answer): void => {
  const headers = { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body), 'Cache-Control': 'no-store' };
  // Node leaves the body away where HEAD was asked.
  response.writeHead(status, headers).end(body);
};

/** Rejects where the port cannot be listened on. */
export const serveMetrics = async (deps: {
  registry: Registry;
  health: Health;
  host: string;
  port: number;
}): Promise<Running> => {
  const { registry, health, host, port } = deps;
  const answers: Readonly<Record<string, () => Promise<Answer>>> = {
    '/metrics': async () => ({ status: 200, type: registry.contentType, body: await registry.metrics() }),
    '/health/live': async () => json(200, { status: 'live' }),
    '/health/ready': async () => {
      const readiness = await health.readiness();
      return json(readiness.status === 'ready' ? 200 : 503, readiness);
    },
  };
  const server = createServer((request, response) => {
    // Whoever asks may put a query behind it, to get past a cache.
    const [path = ''] = (request.url ?? '').split('?', 1);
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const answer = isRead && Object.hasOwn(answers, path) ? answers[path] : undefined;
    if (answer === undefined) return void response.writeHead(404).end();
    answer().then(
      (found) => send(response, found),
      () => response.writeHead(500).end(),
    );
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(port, host, resolve);
  await promise;
  return {
    stop: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
};
