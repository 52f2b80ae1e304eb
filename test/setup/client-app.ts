/** A native app: the loopback redirect address of an authorization (RFC 8252 §7.3). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const PATH = '/callback';

export type ClientApp = {
  redirectUri: string;
  /** Resolves with the redirect URL and its parameters. */
  cameBack: () => Promise<URL>;
  close: () => Promise<void>;
};

/** Listens on an ephemeral port. */
export async function startClientApp(): Promise<ClientApp> {
  const { promise, resolve } = Promise.withResolvers<URL>();
  const server = createServer((request, response) => {
    const address = new URL(request.url ?? '', origin());
    // Browsers also request an icon.
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
}
