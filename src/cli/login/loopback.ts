/** Receives the redirect of the browser on a free loopback port (RFC 8252 §7.3). */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { UserError } from '../explain.ts';
import { DENIED } from '../session/tokens.ts';

export type Loopback = {
  redirectUri: string;
  /** Resolves with the authorization code; rejects with a `UserError` if the user denied access. */
  code: Promise<string>;
  close: () => Promise<void>;
};

const PATH = '/callback';

/** Sends a page; resolves when it is sent, or when the browser disconnects. */
function sendPage(response: ServerResponse, status: number, title: string, text: string): Promise<unknown> {
  const main = html`<div class="card">
    <h1>${title}</h1>
    <p>${text}</p>
  </div>`;
  response.writeHead(status, {
    'Content-Type': 'text/html; charset=utf-8',
    // The address contains the code.
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
    Connection: 'close',
  });
  response.end(shell({ title, main }));
  return once(response, 'close');
}

const CLOSE = 'Go back to the terminal. You can close this tab.';

const refusalOf = (query: URLSearchParams): UserError =>
  new UserError(
    query.get('error') === 'access_denied'
      ? DENIED
      : `You are not logged in: ${query.get('error_description') ?? query.get('error') ?? 'the server sent no code'}`,
  );

/** Starts the server. Rejects redirects without the `state` of this login or of another issuer (RFC 9207). */
export async function openLoopback({ state, issuer }: { state: string; issuer: string }): Promise<Loopback> {
  const { promise: code, resolve, reject } = Promise.withResolvers<string>();
  // Prevents an unhandled rejection before the caller awaits the code.
  code.catch(() => {});
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    // An invalid address must not end the login.
    const target = URL.parse(request.url ?? '/', 'http://localhost') ?? new URL('http://localhost');
    const { pathname, searchParams: query } = target;
    if (request.method !== 'GET' || pathname !== PATH) return sendPage(response, 404, 'Page not found', CLOSE);
    if (query.get('state') !== state || query.get('iss') !== issuer)
      return sendPage(
        response,
        400,
        'Another login',
        'This page belongs to another login: open the address in the terminal.',
      );
    const received = query.get('code');
    if (received === null) {
      const refusal = refusalOf(query);
      await sendPage(response, 200, 'Not logged in', CLOSE);
      return reject(refusal);
    }
    await sendPage(response, 200, 'Return to the terminal', 'The login continues there. You can close this tab.');
    return resolve(received);
  };
  const server = createServer((request, response) => void handle(request, response).catch(reject));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    redirectUri: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`,
    code,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
