/** A real https server on loopback, whose certificate this process trusts, that serves metadata documents of clients. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { createAuthority } from './authority.ts';

type Respond = (response: ServerResponse) => void;

/** The redirect address of the documents, unless a test names others. */
export const DOCUMENT_REDIRECT = 'https://agent.example.com/back';

export async function startDocumentHost() {
  const authority = createAuthority();
  after(authority.remove);
  // As NODE_EXTRA_CA_CERTS does when a process starts.
  setDefaultCACertificates([...getCACertificates('default'), authority.cert]);
  const got: string[] = [];
  const responders = new Map<string, Respond>();
  const server = createServer(authority.sign('IP:127.0.0.1', 'DNS:localhost'), (request, response) => {
    const { method, url = '' } = request;
    got.push(`${method} ${url}`);
    const respond = responders.get(url) ?? ((unknown) => void unknown.writeHead(404).end());
    respond(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });
  const { port } = server.address() as AddressInfo;
  const host = `127.0.0.1:${port}`;
  const respondAt = (path: string, respond: Respond): string => {
    responders.set(path, respond);
    return `https://${host}${path}`;
  };
  return {
    host,
    authority,
    /** Method and path of each request. */
    got,
    respondAt,
    /** Serves a document at a path, in place of the former; returns its address, which is its client_id. `changes` replace or add members. */
    publish: (path: string, changes: object = {}, headers: Record<string, string> = {}): string => {
      const members = { client_name: 'Agent', redirect_uris: [DOCUMENT_REDIRECT], token_endpoint_auth_method: 'none' };
      const document = { client_id: `https://${host}${path}`, ...members, ...changes };
      return respondAt(path, (response) =>
        response.writeHead(200, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(document)),
      );
    },
    /** Answers 404 from now on. */
    remove: (path: string): void => void responders.delete(path),
  };
}

export type DocumentHost = Awaited<ReturnType<typeof startDocumentHost>>;
