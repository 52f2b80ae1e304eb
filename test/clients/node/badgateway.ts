/** @badgateway/oauth2-client 3. */
// docs
import { randomBytes } from 'node:crypto';
import { generateCodeVerifier, OAuth2Client, OAuth2Fetch } from '@badgateway/oauth2-client';
// end
import { call, type Method, type Walk } from '../oauth-flow.ts';

const methods = {
  basic: { authenticationMethod: 'client_secret_basic' },
  post: { authenticationMethod: 'client_secret_post' },
  none: {},
} as const satisfies Record<Method, object>;

export const walk: Walk = async ({ issuer, clientId, clientSecret, method, redirectUri, visit, store }) => {
  const authentication = methods[method];
  // docs
  const client = new OAuth2Client({ server: issuer, clientId, clientSecret, ...authentication });

  const codeVerifier = await generateCodeVerifier();
  const state = randomBytes(16).toString('hex');
  const request = { redirectUri, state, codeVerifier };
  const address = await client.authorizationCode.getAuthorizeUri({ ...request, scope: ['store_full_access'] });
  const back = await visit(address);
  const token = await client.authorizationCode.getTokenFromCodeRedirect(back, request);

  // It adds the token to each request, and refreshes by itself when it has run out.
  const wrapper = new OAuth2Fetch({ client, getNewToken: () => token, scheduleRefresh: false });
  const headers = { 'SERVICE-API-VERSION': '1' };
  const first = await wrapper.fetch(store, { headers });
  const renewed = await wrapper.refreshToken();
  const second = await wrapper.fetch(store, { headers });
  await client.revoke(renewed, 'refresh_token');
  // end
  const third = await call(store, renewed.accessToken);
  const refreshTokens = [token, renewed].map(({ refreshToken }) => refreshToken ?? undefined);
  return { statuses: [first.status, second.status, third.status], refreshTokens };
};
