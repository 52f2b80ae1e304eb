/**
 * The client of the MCP SDK knows an address of the API and of its own metadata document: it discovers the authorization server, is let in
 * without a registration, and refreshes its tokens. oauth4webapi does the same.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  auth,
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
} from '@modelcontextprotocol/client';
import { startDocumentHost } from '../setup/document-host.ts';
import { walk as oauth4webapi } from './node/oauth4webapi.ts';
import { assertWalked, call, openScene } from './oauth-flow.ts';

const host = await startDocumentHost();
const scene = await openScene({ OUTBOUND_ALLOW: '127.0.0.0/8' });
const app = await scene.onComputer();
const { visit, store, redirectUri, issuer } = app;
const metadata = {
  client_name: 'An agent',
  redirect_uris: ['http://127.0.0.1/callback'],
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
};

/** What a program with the SDK has to store; `address` is where it would open the browser. */
function createProvider(clientMetadataUrl: string) {
  const kept: {
    client?: OAuthClientInformationMixed;
    tokens?: OAuthTokens;
    found?: OAuthDiscoveryState;
    verifier?: string;
    address?: URL;
  } = {};
  const provider: OAuthClientProvider = {
    redirectUrl: redirectUri,
    clientMetadataUrl,
    clientMetadata: { ...metadata, redirect_uris: [redirectUri] },
    state: () => 'a state',
    clientInformation: () => kept.client,
    saveClientInformation: (client) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => void (kept.tokens = tokens),
    redirectToAuthorization: (address) => void (kept.address = address),
    saveDiscoveryState: (found) => void (kept.found = found),
    discoveryState: () => kept.found,
    saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier ?? assert.fail(),
  };
  return { provider, kept };
}

test('the client of the MCP SDK connects by discovery alone, with its metadata document', async () => {
  const clientId = host.publish('/mcp.json', metadata);
  const { provider, kept } = createProvider(clientId);
  const refused = await call(store, 'none');
  const [, resourceMetadata = ''] =
    /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '') ?? [];
  const where = { serverUrl: store, resourceMetadataUrl: new URL(resourceMetadata) };
  assert.equal(await auth(provider, where), 'REDIRECT');
  assert.equal(kept.client?.client_id, clientId, 'it has not registered itself');
  assert.equal(kept.address?.searchParams.get('client_id'), clientId);
  const back = await visit(kept.address ?? assert.fail());
  const { code = '', iss = '' } = Object.fromEntries(back.searchParams);
  assert.equal(await auth(provider, { ...where, authorizationCode: code, iss }), 'AUTHORIZED');
  const first = kept.tokens ?? assert.fail();
  assert.equal((await call(store, first.access_token)).status, 200);
  assert.equal(await auth(provider, where), 'AUTHORIZED', 'it refreshes');
  assert.notEqual(kept.tokens?.refresh_token, first.refresh_token);
  assert.equal((await call(store, kept.tokens?.access_token ?? '')).status, 200);
});

/** The version without a handshake, and those before it, which most clients have. */
const VERSIONS = ['2026-07-28', 'before'] as const;

for (const version of VERSIONS) {
  test(`an agent that knows the address of the endpoint connects, reads, and creates a webhook: ${version}`, async () => {
    const { provider, kept } = createProvider(host.publish(`/agent-${version}.json`, metadata));
    const endpoint = new URL(`${issuer}/mcp`);
    const transport = new StreamableHTTPClientTransport(endpoint, { authProvider: provider });
    const mode = version === 'before' ? 'legacy' : { pin: version };
    const connect = () => {
      const client = new Client({ name: 'agent', version: '1' }, { versionNegotiation: { mode } });
      return {
        client,
        connected: client.connect(new StreamableHTTPClientTransport(endpoint, { authProvider: provider })),
      };
    };
    await assert.rejects(connect().connected, UnauthorizedError);
    assert.equal(kept.address?.searchParams.get('resource'), endpoint.href, 'the endpoint is a resource of its own');
    const { code = '', iss = '' } = Object.fromEntries((await visit(kept.address)).searchParams);
    await transport.finishAuth(code, iss);
    const { client, connected } = connect();
    await connected;
    assert.match(client.getInstructions() ?? '', /svc/);
    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['read', 'actions', 'do'],
    );
    const use = async (name: string, args: Record<string, unknown>) => {
      const { content, isError = false } = await client.callTool({ name, arguments: args });
      const [first] = content as { type: string; text: string }[];
      return { isError, text: first?.text ?? assert.fail() };
    };
    const linkOf = (text: string, rel: string): string =>
      (JSON.parse(text) as { _links: Record<string, { href: string }> })._links[rel]?.href ?? assert.fail(text);
    const home = await use('read', { href: '/' });
    const shop = linkOf(home.text, 'svc:store');
    assert.equal(shop, store);
    const webhooks = linkOf((await use('read', { href: shop })).text, 'svc:webhooks');
    const [create] = JSON.parse((await use('actions', { href: webhooks })).text) as {
      name: string;
      input: { required: string[]; properties: Record<string, { type?: string; enum?: string[] }> };
    }[];
    assert.deepEqual([create?.name, create?.input.required], ['create', ['name', 'format']]);
    assert.ok(create?.input.properties['format']?.enum?.includes('json'));
    const input = { name: `Of ${version}`, format: 'json', encryption_key: 'a key of the agent' };
    const order = { href: webhooks, action: 'create', input, idempotency_key: `agent ${version}` };
    const made = await use('do', order);
    assert.equal(made.isError, false, made.text);
    assert.equal((await use('do', order)).text, made.text, 'the key makes it once');
    const refused = await use('do', { href: webhooks, action: 'create', input: { format: 'fax' } });
    assert.ok(refused.isError);
    assert.match(refused.text, /^HTTP 400\n/);
    assert.match(refused.text, /"field":"name".*"field":"format"/s);
    await client.close();
  });
}

test('oauth4webapi completes the flow with a metadata document', async () => {
  const clientId = host.publish('/oauth4webapi.json', metadata);
  assertWalked(await oauth4webapi({ ...app, clientId }), 'none');
});
