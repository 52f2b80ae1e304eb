/** An app on this computer: the loopback address that a browser comes back to (RFC 8252 §7.3). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const PATH = '/callback';

export type ClientApp = {
  redirectUri: string;
  /** The address that the browser came back to, with what it brought. */
  cameBack: () => Promise<URL>;
  close: () => Promise<void>;
};

/** Listens on a port that nobody chose. */
export const startClientApp = async (): Promise<ClientApp> => {
  const { promise, resolve } = Promise.withResolvers<URL>();
  const server = createServer((request, response) => {
    const address = new URL(request.url ?? '', origin());
    // A browser asks for an icon as well.
    if (address.pathname === PATH) resolve(address);
    response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>Done</title><p>You may close this.</p>');
  }).listen(0, '127.0.0.1');
  const origin = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await once(server, 'listening');
  return {
    redirectUri: origin() + PATH,
    cameBack: () => promise,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};
