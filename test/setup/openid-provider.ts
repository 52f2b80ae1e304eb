/** OpenID providers for tests: a real one in a process of its own, and one whose tokens are wrong as a test asks. */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose';

export type Client = { clientId: string; clientSecret: string; redirectUri: string };

/** Starts oidc-provider with one client and returns its issuer. */
export async function startRealProvider(client: Client) {
  const given = [client.clientId, client.clientSecret, client.redirectUri];
  const child = fork(`${import.meta.dirname}/openid-process.ts`, given, { stdio: 'ignore' });
  const [issuer] = (await once(child, 'message')) as [string];
  const stop = async (): Promise<void> => {
    const ended = once(child, 'exit');
    child.disconnect();
    await ended;
  };
  return { issuer, stop };
}

const newKey = async (kid: string) => ({ kid, ...(await generateKeyPair('RS256')) });

export type Lie = { claims?: JWTPayload; isUnsigned?: boolean; hasForeignKey?: boolean };

/**
 * Starts a provider whose tokens are valid unless a test asks for a lie. It has no page: `codeFor` returns the code that its page
 * would send. It announces `iss` in responses (RFC 9207).
 */
export async function startObedientProvider({ clientId }: Pick<Client, 'clientId'>) {
  const codes = new Map<string, { claims: JWTPayload; lie: Lie }>();
  let key = await newKey('first');
  const foreign = await newKey('first');
  const requests: string[] = [];
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const json = (response: ServerResponse, status: number, value: unknown): void =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));

  const idToken = async (claims: JWTPayload, { isUnsigned, hasForeignKey }: Lie): Promise<string> => {
    const now = Math.floor(Date.now() / 1_000);
    const all = { iss: issuer, aud: clientId, iat: now, exp: now + 300, ...claims };
    if (isUnsigned === true) return new UnsecuredJWT(all).encode();
    const signed = new SignJWT(all).setProtectedHeader({ alg: 'RS256', kid: key.kid });
    return signed.sign((hasForeignKey === true ? foreign : key).privateKey);
  };

  const answerToken = async (body: string, response: ServerResponse): Promise<void> => {
    const code = new URLSearchParams(body).get('code') ?? '';
    const found = codes.get(code);
    codes.delete(code);
    if (found === undefined) return json(response, 400, { error: 'invalid_grant' });
    const id_token = await idToken({ ...found.claims, ...found.lie.claims }, found.lie);
    json(response, 200, { access_token: randomUUID(), token_type: 'Bearer', id_token });
  };

  const metadata = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    // A provider that announces `none` must still not be able to use it.
    id_token_signing_alg_values_supported: ['RS256', 'none'],
    authorization_response_iss_parameter_supported: true,
  };
  server.on('request', (request, response) => {
    const path = request.url ?? '';
    requests.push(path);
    if (path === '/.well-known/openid-configuration') return json(response, 200, metadata);
    if (path === '/jwks')
      return void exportJWK(key.publicKey).then((jwk) =>
        json(response, 200, { keys: [{ ...jwk, kid: key.kid, alg: 'RS256', use: 'sig' }] }),
      );
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => void answerToken(Buffer.concat(chunks).toString(), response));
  });

  return {
    issuer,
    /** The paths of the requests of clients. */
    requests,
    /** Returns a code for a person, valid once. */
    codeFor: (claims: JWTPayload, lie: Lie = {}): string => {
      const code = randomUUID();
      codes.set(code, { claims, lie });
      return code;
    },
    rotateKey: async (): Promise<void> => {
      key = await newKey('second');
    },
    stop: async (): Promise<void> => {
      const ended = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await ended;
    },
  };
}
