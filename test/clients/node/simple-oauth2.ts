/** simple-oauth2 5. It has no PKCE of its own; further parameters are passed through. */
// docs
import { createHash, randomBytes } from 'node:crypto';
import { AuthorizationCode } from 'simple-oauth2';
// end
import { call, type Walk } from '../oauth-flow.ts';

export const walk: Walk = async ({ issuer, clientId, clientSecret, method, redirectUri, visit, store }) => {
  const authorizationMethod = method === 'basic' ? 'header' : 'body';
  // docs
  const client = new AuthorizationCode({
    client: { id: clientId, secret: clientSecret },
    auth: { tokenHost: issuer, tokenPath: '/token', authorizePath: '/authorize', revokePath: '/revoke' },
    options: { authorizationMethod },
  });

  const state = randomBytes(16).toString('hex');
  const verifier = randomBytes(32).toString('base64url');
  const request = {
    redirect_uri: redirectUri,
    scope: 'store_full_access',
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  };
  const back = await visit(client.authorizeURL(request));
  const { code, state: returned, iss } = Object.fromEntries(back.searchParams);
  if (code === undefined || returned !== state || iss !== issuer) throw new Error('This is no answer to what we asked');
  const exchange = { code, redirect_uri: redirectUri, code_verifier: verifier };
  const token = await client.getToken(exchange);
  const first = await call(store, String(token.token['access_token']));
  const renewed = await token.refresh();
  const second = await call(store, String(renewed.token['access_token']));
  await renewed.revoke('refresh_token');
  // end
  const third = await call(store, String(renewed.token['access_token']));
  const refreshTokens = [token, renewed].map((either) => String(either.token['refresh_token']));
  return { statuses: [first.status, second.status, third.status], refreshTokens };
};
