/** openid-client 6. */
// docs
import * as client from 'openid-client';
// end
import { statusOf, type Walk } from '../oauth-flow.ts';

export const walk: Walk = async ({ issuer, clientId, clientSecret, method, redirectUri, visit, store }) => {
  const authentication = {
    basic: client.ClientSecretBasic,
    post: client.ClientSecretPost,
    none: client.None,
  }[method](clientSecret);
  // Only for a server on this computer, which uses http.
  const options = { execute: [client.allowInsecureRequests] };
  // docs
  const config = await client.discovery(new URL(issuer), clientId, undefined, authentication, {
    algorithm: 'oauth2',
    ...options,
  });

  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const expectedState = client.randomState();
  const address = client.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope: 'store_full_access',
    state: expectedState,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  });
  const back = await visit(address);
  const tokens = await client.authorizationCodeGrant(config, back, { pkceCodeVerifier, expectedState });

  const headers = new Headers({ 'SERVICE-API-VERSION': '1' });
  const read = (accessToken: string) =>
    client.fetchProtectedResource(config, accessToken, new URL(store), 'GET', null, headers);
  const first = await read(tokens.access_token);
  const renewed = await client.refreshTokenGrant(config, tokens.refresh_token ?? '');
  const second = await read(renewed.access_token);
  await client.tokenRevocation(config, renewed.refresh_token ?? '');
  // end
  const third = await statusOf(read(renewed.access_token));
  return {
    statuses: [first.status, second.status, third],
    refreshTokens: [tokens.refresh_token, renewed.refresh_token],
  };
};
