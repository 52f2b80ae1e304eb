/** oauth4webapi 3. */
// docs
import * as oauth from 'oauth4webapi';
// end
import { statusOf, type Walk } from '../oauth-flow.ts';

export const walk: Walk = async ({ issuer, clientId, clientSecret, method, redirectUri, visit, store }) => {
  const authentication = {
    basic: oauth.ClientSecretBasic,
    post: oauth.ClientSecretPost,
    none: oauth.None,
  }[method](clientSecret);
  // Only for a server on this computer, which uses http.
  const options = { [oauth.allowInsecureRequests]: true };
  // docs
  const found = await oauth.discoveryRequest(new URL(issuer), { algorithm: 'oauth2', ...options });
  const server = await oauth.processDiscoveryResponse(new URL(issuer), found);
  const client = { client_id: clientId };

  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const address = new URL(server.authorization_endpoint ?? '');
  address.search = new URLSearchParams({
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: 'store_full_access',
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }).toString();
  const back = oauth.validateAuthResponse(server, client, await visit(address), state);
  const tokens = await oauth.processAuthorizationCodeResponse(
    server,
    client,
    await oauth.authorizationCodeGrantRequest(server, client, authentication, back, redirectUri, verifier, options),
  );

  const headers = new Headers({ 'SERVICE-API-VERSION': '1' });
  const read = (accessToken: string) =>
    oauth.protectedResourceRequest(accessToken, 'GET', new URL(store), headers, null, options);
  const first = await read(tokens.access_token);
  const refreshToken = tokens.refresh_token ?? '';
  const renewed = await oauth.processRefreshTokenResponse(
    server,
    client,
    await oauth.refreshTokenGrantRequest(server, client, authentication, refreshToken, options),
  );
  const second = await read(renewed.access_token);
  const kept = renewed.refresh_token ?? refreshToken;
  await oauth.processRevocationResponse(await oauth.revocationRequest(server, client, authentication, kept, options));
  // end
  const third = await statusOf(read(renewed.access_token));
  return { statuses: [first.status, second.status, third], refreshTokens: [refreshToken, renewed.refresh_token] };
};
