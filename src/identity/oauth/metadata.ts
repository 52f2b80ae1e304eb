/** Serves the metadata of the authorization server (RFC 8414) and of the API (RFC 9728). */
import { jsonAnswer } from '#http/answers.ts';
import { mcpAddressOf, wellKnown } from '#http/root.ts';
import type { RawHandler } from '#http/route.ts';
import type { RuntimeConfig } from '#runtime/runtime.ts';
import { DEVICE_GRANT } from './token-endpoint.ts';
import { userScopes } from './scope.ts';

/** Returns the address of the authorization server's metadata. */
export function metadataOf(issuer: string): string {
  return wellKnown('oauth-authorization-server', issuer);
}

const BY_SECRET = ['client_secret_basic', 'client_secret_post'];
const ANY_CLIENT = [...BY_SECRET, 'none'];

type Addresses = { baseUrl: string; authUrl: string };
type Accepted = Pick<RuntimeConfig['oauth'], 'openRegistration' | 'acceptsMetadataDocuments'>;
type Served = Addresses & { oauth: Accepted } & Pick<RuntimeConfig, 'mcp'>;

/** Returns the metadata of the authorization server (RFC 8414 §2). */
export function serverMetadata({ baseUrl, authUrl, oauth, mcp }: Served) {
  return {
    issuer: authUrl,
    authorization_endpoint: `${authUrl}/authorize`,
    token_endpoint: `${baseUrl}/token`,
    device_authorization_endpoint: `${authUrl}/device_authorization`,
    revocation_endpoint: `${authUrl}/revoke`,
    introspection_endpoint: `${authUrl}/introspect`,
    // Clients that find it register without asking anyone for credentials, so it is left out where that is refused.
    ...(oauth.openRegistration && { registration_endpoint: `${authUrl}/register` }),
    client_id_metadata_document_supported: oauth.acceptsMetadataDocuments,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials', DEVICE_GRANT],
    scopes_supported: [...userScopes(), 'platform'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ANY_CLIENT,
    revocation_endpoint_auth_methods_supported: ANY_CLIENT,
    // A bearer token of the platform is accepted instead of client credentials.
    introspection_endpoint_auth_methods_supported: [...BY_SECRET, 'Bearer'],
    authorization_response_iss_parameter_supported: true,
    // RFC 9728 §4: the resources that accept these tokens. Without it, any API could send users here and collect their
    // tokens.
    protected_resources: [baseUrl, ...(mcp ? [mcpAddressOf(baseUrl)] : [])],
  };
}

/** Returns the metadata of the API: the authorization server whose tokens it accepts (RFC 9728 §2). */
export function resourceMetadata({ baseUrl, authUrl }: Addresses) {
  return {
    resource: baseUrl,
    authorization_servers: [authUrl],
    // Clients request all listed scopes at once, so only the smaller of the two that exclude each other is listed.
    scopes_supported: ['store_full_access'],
    bearer_methods_supported: ['header'],
    resource_name: 'Halcyon API',
    resource_documentation: `${baseUrl}/docs`,
  };
}

/** Serves metadata, which does not change while the process runs. */
export function createMetadata(metadata: object): RawHandler {
  const answer = jsonAnswer(200, metadata);
  return async () => answer;
}
