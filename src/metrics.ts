/** `/metrics` in Prometheus' text format, on a port of its own: for the operator's network, not for the world. */
import { createServer } from 'node:http';
import type { Registry } from 'prom-client';
import type { Running } from '#kernel/lifecycle.ts';

/** Rejects where the port cannot be listened on. */
export const serveMetrics = async (deps: { registry: Registry; host: string; port: number }): Promise<Running> => {
  const { registry, host, port } = deps;
  const server = createServer((request, response) => {
    const isAsked = request.url === '/metrics' && (request.method === 'GET' || request.method === 'HEAD');
    if (!isAsked) return void response.writeHead(404).end();
    registry.metrics().then(
      (text) => response.writeHead(200, { 'Content-Type': registry.contentType }).end(text),
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
