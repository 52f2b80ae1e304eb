/**
 * An agent, such as one with MCP, that knows only an address of the API: it discovers the authorization server, registers itself, and
 * connects. Everything that it sends comes from the standards and from responses; nothing comes from the code or documents of Halcyon.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as oauth from 'oauth4webapi';
import { freePort } from '../setup/free-port.ts';
import { openScene } from './oauth-flow.ts';

const scene = await openScene({ OPEN_REGISTRATION: 'true' });
const { visit, store } = await scene.onComputer();

// Only for a server on this computer, which uses http.
const options = { [oauth.allowInsecureRequests]: true };

/** Reads the metadata of the API, which the challenge of an address names (RFC 9728 §5.1), and checks that they are of this API. */
async function discoverResource(address: string): Promise<oauth.ResourceServer> {
  const refused = [await fetch(address), await call(address)];
  assert.deepEqual(
    refused.map(({ status }) => status),
    [400, 401],
  );
  const [challenge = '', repeated] = refused.map(({ headers }) => headers.get('www-authenticate') ?? '');
  assert.equal(challenge, repeated, 'the response that asks for a header has the challenge, too');
  const [, metadata = ''] = /^Bearer\b.*\bresource_metadata="([^"]+)"/.exec(challenge) ?? [];
  const response = await fetch(metadata);
  const { resource } = (await response.clone().json()) as oauth.ResourceServer;
  const found = await oauth.processResourceDiscoveryResponse(new URL(resource), response);
  assert.ok(address.startsWith(`${found.resource}/`), 'the metadata are of another API');
  return found;
}

async function discoverServer(resource: oauth.ResourceServer): Promise<oauth.AuthorizationServer> {
  const issuer = new URL(resource.authorization_servers?.[0] ?? '');
  const response = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...options });
  const server = await oauth.processDiscoveryResponse(issuer, response);
  const { protected_resources: named } = server as { protected_resources?: string[] };
  assert.ok(named?.includes(resource.resource), 'the authorization server does not know this API');
  return server;
}

/** Calls the API; if the response asks for a header, calls it again with the header. */
async function call(address: string, accessToken?: string): Promise<Response> {
  const headers: Record<string, string> = accessToken === undefined ? {} : { Authorization: `Bearer ${accessToken}` };
  const first = await fetch(address, { headers });
  if (first.status !== 400) return first;
  const [, name = '', value = ''] = /header ([\w-]+): ([\w.]+)/.exec(await first.text()) ?? [];
  return fetch(address, { headers: { ...headers, [name]: value } });
}

test('an agent that knows an address of the API discovers, registers and connects', async () => {
  const resource = await discoverResource(store);
  const server = await discoverServer(resource);
  const redirectUri = `http://127.0.0.1:${await freePort()}/callback`;
  const client = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(
      server,
      {
        client_name: 'An agent',
        redirect_uris: [redirectUri],
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
      options,
    ),
  );
  const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()];
  const address = new URL(server.authorization_endpoint ?? '');
  address.search = new URLSearchParams({
    response_type: 'code',
    client_id: client.client_id,
    redirect_uri: redirectUri,
    scope: resource.scopes_supported?.join(' ') ?? '',
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    resource: resource.resource,
  }).toString();
  const back = oauth.validateAuthResponse(server, client, await visit(address), state);
  const withResource = { additionalParameters: { resource: resource.resource }, ...options };
  const tokens = await oauth.processAuthorizationCodeResponse(
    server,
    client,
    await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), back, redirectUri, verifier, withResource),
  );
  assert.equal((await call(store, tokens.access_token)).status, 200);
  const renewed = await oauth.processRefreshTokenResponse(
    server,
    client,
    await oauth.refreshTokenGrantRequest(server, client, oauth.None(), tokens.refresh_token ?? '', withResource),
  );
  assert.equal((await call(store, renewed.access_token)).status, 200);
});

test('an agent that knows the address of the API finds the same metadata at the well-known address', async () => {
  const { resource } = await discoverResource(store);
  const found = await oauth.processResourceDiscoveryResponse(
    new URL(resource),
    await oauth.resourceDiscoveryRequest(new URL(resource), options),
  );
  assert.equal(found.resource, resource);
});
