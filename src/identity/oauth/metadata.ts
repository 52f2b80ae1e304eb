/** Serves the authorization server's metadata (RFC 8414): its endpoints and supported features. */
import { jsonAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawHandler } from '#http/route.ts';
import { userScopes } from './scope.ts';

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

/** Returns the path of the metadata: the well-known path before the issuer's own path, if it has one (RFC 8414 §3.1). */
export function metadataPath(issuer: string): string {
  return WELL_KNOWN + rootOf(issuer);
}

const BY_SECRET = ['client_secret_basic', 'client_secret_post'];
const ANY_CLIENT = [...BY_SECRET, 'none'];

export function createMetadata({ baseUrl, authUrl }: { baseUrl: string; authUrl: string }): RawHandler {
  const answer = jsonAnswer(200, {
    issuer: authUrl,
    authorization_endpoint: `${authUrl}/authorize`,
    token_endpoint: `${baseUrl}/token`,
    revocation_endpoint: `${authUrl}/revoke`,
    introspection_endpoint: `${authUrl}/introspect`,
    registration_endpoint: `${authUrl}/register`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials'],
    scopes_supported: [...userScopes, 'platform'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ANY_CLIENT,
    revocation_endpoint_auth_methods_supported: ANY_CLIENT,
    // A bearer token of the platform is accepted instead of client credentials.
    introspection_endpoint_auth_methods_supported: [...BY_SECRET, 'Bearer'],
    authorization_response_iss_parameter_supported: true,
    // RFC 9728 §4: the resources that accept these tokens. Without it, any API could send users here and collect their
    // tokens.
    protected_resources: [baseUrl],
  });
  return async () => answer;
}
