/** A minimal web site of a client on another origin: its pages show the parameters that they were called with. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Site = { origin: string; port: number; visits: URL[]; close: () => void };

/** `answer` returns the answer of a path: a page's HTML, or the target of a redirect. */
export async function startSite(answer: (url: URL) => { html: string } | { location: string }): Promise<Site> {
  const visits: URL[] = [];
  const server: Server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    visits.push(url);
    const answered = answer(url);
    if ('location' in answered) response.writeHead(302, { Location: answered.location }).end();
    else response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end(answered.html);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  // Under the name localhost it is another site than 127.0.0.1, where the authorization server is.
  return { origin: `http://localhost:${port}`, port, visits, close };
}
