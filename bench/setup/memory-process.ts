/** node:http answering the same bytes from memory to everybody, in a process of its own: as fast as an answer can be here. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { answer } from './child.ts';

let server: Server | undefined;

const handlers = {
  start: async (given: { port: number; headers: Record<string, string>; body: string }): Promise<void> => {
    const bytes = Buffer.from(given.body);
    const headers = { ...given.headers, 'Content-Length': String(bytes.length) };
    server = createServer((_request, response) => response.writeHead(200, headers).end(bytes));
    server.listen(given.port, '127.0.0.1');
    await once(server, 'listening');
  },
};

export type MemoryProcess = typeof handlers;
answer(handlers, async () => {
  server?.closeAllConnections();
});
