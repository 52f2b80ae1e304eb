/** Clients that register themselves (RFC 7591), with a registration token of the operator. */
import * as client from 'openid-client';
import * as oauth from 'oauth4webapi';
import type { App } from '../oauth-flow.ts';

export type Registered = { clientId: string; clientSecret: string };
type Registering = { app: App; initialAccessToken: string; name: string };
/** Registers the app: its redirect address, and its method of authentication. */
export type Register = (registering: Registering) => Promise<Registered>;

const methods = { basic: 'client_secret_basic', post: 'client_secret_post', none: 'none' } as const;

export const withOpenidClient: Register = async ({ app, initialAccessToken, name }) => {
  const { issuer, redirectUri, method } = app;
  const token_endpoint_auth_method = methods[method];
  // Only for a server on this computer, which uses http.
  const options = { execute: [client.allowInsecureRequests] };
  // docs
  const metadata = { client_name: name, redirect_uris: [redirectUri], token_endpoint_auth_method };
  const config = await client.dynamicClientRegistration(new URL(issuer), metadata, undefined, {
    algorithm: 'oauth2',
    initialAccessToken,
    ...options,
  });
  const { client_id, client_secret = '' } = config.clientMetadata();
  // end
  return { clientId: client_id, clientSecret: client_secret };
};

export const withOauth4webapi: Register = async ({ app, initialAccessToken, name }) => {
  const { issuer, redirectUri, method } = app;
  const options = { [oauth.allowInsecureRequests]: true };
  const found = await oauth.discoveryRequest(new URL(issuer), { algorithm: 'oauth2', ...options });
  const server = await oauth.processDiscoveryResponse(new URL(issuer), found);
  const { client_id, client_secret } = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(
      server,
      { client_name: name, redirect_uris: [redirectUri], token_endpoint_auth_method: methods[method] },
      { initialAccessToken, ...options },
    ),
  );
  return { clientId: client_id, clientSecret: typeof client_secret === 'string' ? client_secret : '' };
};
