/** The metadata of the authorization server (RFC 8414) and of the API (RFC 9728), at a host and at a path. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { userScopes } from '#identity/oauth/scope.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';

const PATH = '/.well-known/oauth-authorization-server';
const server = await startAuthorizationServer();

const described = (api: string, auth: string) => ({
  issuer: auth,
  authorization_endpoint: `${auth}/authorize`,
  token_endpoint: `${api}/token`,
  device_authorization_endpoint: `${auth}/device_authorization`,
  revocation_endpoint: `${auth}/revoke`,
  introspection_endpoint: `${auth}/introspect`,
  client_id_metadata_document_supported: true,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: [
    'authorization_code',
    'refresh_token',
    'client_credentials',
    'urn:ietf:params:oauth:grant-type:device_code',
  ],
  scopes_supported: [...userScopes(), 'platform'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
  revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
  introspection_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'Bearer'],
  authorization_response_iss_parameter_supported: true,
  protected_resources: [api, `${api}/mcp`],
});

test('the metadata lists the endpoints and their capabilities', async () => {
  const response = await fetch(server.origin + PATH);
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^application\/json(;|$)/);
  assert.deepEqual(await response.json(), described(ISSUER, ISSUER));
});

test('any origin may read the metadata, and a POST is a 405', async () => {
  const response = await fetch(server.origin + PATH);
  assert.equal(response.headers.get('access-control-allow-origin'), '*');
  assert.equal((await fetch(server.origin + PATH, { method: 'HEAD' })).status, 200);
  const post = await fetch(server.origin + PATH, { method: 'POST' });
  assert.equal(post.status, 405);
  assert.equal(post.headers.get('allow'), 'GET, HEAD, OPTIONS');
});

test('every address in the metadata answers', async () => {
  const metadata = Object.entries((await (await fetch(server.origin + PATH)).json()) as Record<string, string>);
  for (const [name, address] of metadata.filter(([key]) => key.endsWith('_endpoint'))) {
    const response = await fetch(server.origin + new URL(address).pathname, { method: 'OPTIONS' });
    assert.equal(response.status, 200, name);
  }
});

test('with an issuer at a path the well-known part comes before the path', async () => {
  const [api, auth] = ['https://example.test/api', 'https://example.test/auth'];
  const { origin } = await startAuthorizationServer({ BASE_URL: api, AUTH_URL: auth });
  const response = await fetch(`${origin}${PATH}/auth`);
  assert.deepEqual(await response.json(), described(api, auth));
  assert.equal((await fetch(origin + PATH)).status, 404);
});

const RESOURCE_PATH = '/.well-known/oauth-protected-resource';

test('the metadata of the API name its authorization server, and any origin may read them', async () => {
  const response = await fetch(server.origin + RESOURCE_PATH);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('access-control-allow-origin'), '*');
  assert.deepEqual(await response.json(), {
    resource: ISSUER,
    authorization_servers: [ISSUER],
    scopes_supported: ['store_full_access'],
    bearer_methods_supported: ['header'],
    resource_name: 'Halcyon API',
    resource_documentation: `${ISSUER}/docs`,
  });
});

test('a request without a token to an API at a path leads to its metadata, also without the version header', async () => {
  const [api, auth] = ['https://api.example.test/v1', 'https://login.example.test/auth'];
  const { origin } = await startAuthorizationServer({ BASE_URL: api, AUTH_URL: auth });
  for (const [headers, status] of [
    [{}, 400],
    [{ 'SERVICE-API-VERSION': '1' }, 401],
  ] as const) {
    const refused = await fetch(`${origin}/v1/stores`, { headers });
    const challenge = `Bearer realm="halcyon", resource_metadata="https://api.example.test${RESOURCE_PATH}/v1"`;
    assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [status, challenge]);
  }
  const found = (await (await fetch(`${origin}${RESOURCE_PATH}/v1`)).json()) as Record<string, unknown>;
  assert.deepEqual([found['resource'], found['authorization_servers']], [api, [auth]]);
  assert.equal((await fetch(origin + RESOURCE_PATH)).status, 404);
});
