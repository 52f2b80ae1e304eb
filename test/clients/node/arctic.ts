/** arctic 3. It authenticates by Basic, or not at all. */
// docs
import { CodeChallengeMethod, generateCodeVerifier, generateState, OAuth2Client } from 'arctic';
// end
import { call, type Walk } from '../oauth-flow.ts';

export const walk: Walk = async ({ issuer, clientId, clientSecret, redirectUri, visit, store }) => {
  // docs
  const client = new OAuth2Client(clientId, clientSecret || null, redirectUri);

  const state = generateState();
  const verifier = generateCodeVerifier();
  const { S256 } = CodeChallengeMethod;
  const scopes = ['store_full_access'];
  const address = client.createAuthorizationURLWithPKCE(`${issuer}/authorize`, state, S256, verifier, scopes);
  const back = await visit(address);
  const { code, state: returned, iss } = Object.fromEntries(back.searchParams);
  if (code === undefined || returned !== state || iss !== issuer) throw new Error('This is no answer to what we asked');
  const tokens = await client.validateAuthorizationCode(`${issuer}/token`, code, verifier);
  const first = await call(store, tokens.accessToken());
  const renewed = await client.refreshAccessToken(`${issuer}/token`, tokens.refreshToken(), []);
  const second = await call(store, renewed.accessToken());
  await client.revokeToken(`${issuer}/revoke`, renewed.refreshToken());
  // end
  const third = await call(store, renewed.accessToken());
  return {
    statuses: [first.status, second.status, third.status],
    refreshTokens: [tokens.refreshToken(), renewed.refreshToken()],
  };
};
