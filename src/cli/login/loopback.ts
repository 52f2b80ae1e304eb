/** Where the browser comes back to: a loopback address of this computer, on a port that is free (RFC 8252 §7.3). */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { UserError } from '../explain.ts';

export type Loopback = {
  redirectUri: string;
  /** The code that came back. Throws a `UserError` where the person said no. */
  code: Promise<string>;
  close: () => Promise<void>;
};

const PATH = '/callback';

/** Fulfils when the whole page is on its way, or the browser is gone. */
const page = (response: ServerResponse, status: number, title: string, text: string): Promise<unknown> => {
  const main = html`<div class="card">
    <h1>${title}</h1>
    <p>${text}</p>
  </div>`;
  response.writeHead(status, {
    'Content-Type': 'text/html; charset=utf-8',
    // The address has the code in it.
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
    Connection: 'close',
  });
  response.end(shell({ title, main }));
  return once(response, 'close');
};

const CLOSE = 'Go back to the terminal. You can close this tab.';

const refusalOf = (query: URLSearchParams): UserError =>
  new UserError(
    query.get('error') === 'access_denied'
      ? 'You did not allow it in the browser, so you are not logged in. To try again: halcyon login'
      : `You are not logged in: ${query.get('error_description') ?? query.get('error') ?? 'no code came back'}`,
  );

/** Listens from here on. What comes without the `state` of this login, or from another issuer (RFC 9207), is not for us. */
export const openLoopback = async ({ state, issuer }: { state: string; issuer: string }): Promise<Loopback> => {
  const { promise: code, resolve, reject } = Promise.withResolvers<string>();
  // Whoever waits for it may be waiting for something else at the moment.
  code.catch(() => {});
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    // What is no address at all is no reason to end this login.
    const target = URL.parse(request.url ?? '/', 'http://localhost') ?? new URL('http://localhost');
    const { pathname, searchParams: query } = target;
    if (request.method !== 'GET' || pathname !== PATH) return page(response, 404, 'Nothing here', CLOSE);
    if (query.get('state') !== state || query.get('iss') !== issuer)
      return page(
        response,
        400,
        'Not this login',
        'This page belongs to another login: open the address in the terminal.',
      );
    const given = query.get('code');
    if (given === null) {
      const refusal = refusalOf(query);
      await page(response, 200, 'Not logged in', CLOSE);
      return reject(refusal);
    }
    await page(response, 200, 'Back to the terminal', 'The rest happens there. You can close this tab.');
    return resolve(given);
  };
  const server = createServer((request, response) => void answer(request, response).catch(reject));
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
};
