/** The OpenID providers of this server: discovery, the redirect to a provider, and the exchange of its code for an identity. */
import * as client from 'openid-client';
import type { Log } from '#core/log.ts';
import type { RuntimeConfig } from '#runtime/runtime.ts';
import type { ExternalIdentity } from '../accounts-sql.ts';

export type OpenIdProvider = RuntimeConfig['accounts']['openIdProviders'][number];

/** What binds a response of the provider to the browser that asked for it. */
export type Proofs = { state: string; nonce: string; verifier: string };

/** A person as the provider describes them. */
export type ProvidedPerson = ExternalIdentity & { email: string | undefined; isEmailVerified: boolean };

type Exchanged =
  | { kind: 'person'; person: ProvidedPerson }
  /** The provider did not respond, or not as OpenID Connect requires. */
  | { kind: 'unavailable' }
  /** The response, the code or the ID token is not valid, or the person or the provider has refused. */
  | { kind: 'refused' };

export type Provider = ReturnType<typeof createProvider>;

const DISCOVERY_LIFETIME_MS = 3_600_000;
const RESPONSE_BYTES_MAX = 256 * 1024;
const TIMEOUT_SECONDS = 5;
const SCOPE = 'openid email';
/** OpenID Connect Core §2. */
const SUBJECT_LENGTH_MAX = 255;

/** `fetch` with a limit on the size of the response, which the library reads into memory. */
const limitedFetch: client.CustomFetch = async (url, { body, ...options }) => {
  const response = await fetch(url, { ...options, body: body ?? null });
  if (response.body === null) return response;
  let readBytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      readBytes += chunk.byteLength;
      if (readBytes > RESPONSE_BYTES_MAX) controller.error(new TypeError('The response is too large'));
      else controller.enqueue(chunk);
    },
  });
  const { status, headers } = response;
  return new Response(response.body.pipeThrough(counted), { status, headers });
};

const UNAVAILABLE = new Set([
  'OAUTH_TIMEOUT',
  'OAUTH_ABORT',
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
]);

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

/** Whether an error is a failure of the connection or of the provider. `fetch` throws a TypeError without a code. */
function isUnavailable(error: unknown): boolean {
  const code = codeOf(error);
  if (code === undefined) return error instanceof TypeError;
  return UNAVAILABLE.has(code);
}

/** Prefers HTTP Basic, the default of OpenID Connect Core §9. */
function authenticationOf(metadata: client.ServerMetadata, secret: string): client.ClientAuth {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  return methods.includes('client_secret_basic') ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret);
}

/** Returns the metadata of an issuer. It is read when needed, once at a time, and kept for an hour; a failure is not kept. */
function createDiscovery(issuer: string, requests: client.DiscoveryRequestOptions) {
  let cached: { metadata: Promise<client.ServerMetadata>; expiresMs: number } | undefined;
  const discover = async (): Promise<client.ServerMetadata> => {
    const found = await client.discovery(new URL(issuer), 'unused', undefined, client.None(), requests);
    return found.serverMetadata();
  };
  return (now: Date): Promise<client.ServerMetadata> => {
    if (cached !== undefined && cached.expiresMs > now.getTime()) return cached.metadata;
    const one = { metadata: discover(), expiresMs: now.getTime() + DISCOVERY_LIFETIME_MS };
    cached = one;
    one.metadata.catch(() => {
      if (cached === one) cached = undefined;
    });
    return one.metadata;
  };
}

/** Exchanges the code and returns the person of the ID token; the address is that of the token, otherwise of the userinfo endpoint. */
async function personOf(
  configuration: client.Configuration,
  response: URL,
  proofs: Proofs,
): Promise<ProvidedPerson | undefined> {
  const tokens = await client.authorizationCodeGrant(configuration, response, {
    expectedState: proofs.state,
    expectedNonce: proofs.nonce,
    pkceCodeVerifier: proofs.verifier,
  });
  const token = tokens.claims();
  if (token === undefined || token.sub.length > SUBJECT_LENGTH_MAX) return undefined;
  const hasUserInfo = configuration.serverMetadata().userinfo_endpoint !== undefined;
  const claims =
    token['email'] === undefined && hasUserInfo
      ? await client.fetchUserInfo(configuration, tokens.access_token, token.sub)
      : token;
  const { email, email_verified: verified } = claims;
  return {
    issuer: token.iss,
    subject: token.sub,
    email: typeof email === 'string' ? email : undefined,
    isEmailVerified: verified === true,
  };
}

/** `timeoutSeconds`: for each request to the provider. */
export function createProvider(
  provider: OpenIdProvider,
  { log, timeoutSeconds = TIMEOUT_SECONDS }: { log: Log; timeoutSeconds?: number },
) {
  const { name, issuer, clientId, clientSecret } = provider;
  // http: is only configured for a provider on the same computer.
  const isInsecure = issuer.startsWith('http:');
  const execute = isInsecure ? [client.allowInsecureRequests] : [];
  const discover = createDiscovery(issuer, { execute, timeout: timeoutSeconds, [client.customFetch]: limitedFetch });

  /** A new configuration for each sign-in reads the provider's keys again, so that a rotated key is known at once. */
  const configure = async (now: Date): Promise<client.Configuration> => {
    const metadata = await discover(now);
    const authentication = authenticationOf(metadata, clientSecret);
    const configuration = new client.Configuration(metadata, clientId, clientSecret, authentication);
    configuration.timeout = timeoutSeconds;
    configuration[client.customFetch] = limitedFetch;
    if (isInsecure) client.allowInsecureRequests(configuration);
    // Without this, the library relies on TLS for the signature of an ID token from the token endpoint.
    client.enableNonRepudiationChecks(configuration);
    return configuration;
  };

  /** Logs no error object: its cause may contain tokens and claims. */
  const warn = (error: unknown, message: string): void => {
    const reason = error instanceof Error ? error.message : undefined;
    log.warn({ provider: name, code: codeOf(error), reason }, message);
  };

  return {
    ...provider,
    /** Returns the address at the provider to redirect to; undefined if the provider is not available. */
    authorizationUrl: async (redirectUri: string, { state, nonce, verifier }: Proofs, now: Date) => {
      try {
        const challenge = await client.calculatePKCECodeChallenge(verifier);
        return client.buildAuthorizationUrl(await configure(now), {
          redirect_uri: redirectUri,
          scope: SCOPE,
          state,
          nonce,
          code_challenge: challenge,
          code_challenge_method: 'S256',
        }).href;
      } catch (error) {
        warn(error, 'OpenID provider not available');
        return undefined;
      }
    },
    /** Exchanges the code of a response. `response` is the address of the callback with its query. */
    exchange: async (response: URL, proofs: Proofs, now: Date): Promise<Exchanged> => {
      try {
        const person = await personOf(await configure(now), response, proofs);
        return person === undefined ? { kind: 'refused' } : { kind: 'person', person };
      } catch (error) {
        const isDown = isUnavailable(error);
        warn(error, isDown ? 'OpenID provider not available' : 'sign-in with OpenID provider refused');
        return { kind: isDown ? 'unavailable' : 'refused' };
      }
    },
  };
}
