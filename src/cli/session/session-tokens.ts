/** The requests of a login to its authorization server, by openid-client: as a public client, with PKCE or a device code. */
import * as client from 'openid-client';
import { COMMAND_LINE_CLIENT } from '#identity/oauth/clients/clients.ts';
import { DEVICE_GRANT } from '#identity/oauth/token-endpoint.ts';
import { UserError } from '../explain.ts';
import type { Login } from './credentials.ts';
import { causeOf, isTemporary, reasonOf, REQUEST_SECONDS, textOf, unreachable } from './json-request.ts';

export const DENIED = 'You did not allow it in the browser, so you are not logged in. To try again: halcyon login';

/** The limit of metadata and of the responses about tokens. */
const RESPONSE_BYTES_MAX = 1024 * 1024;

/** Returns a response without its challenge, which the library would report instead of the OAuth error in the body. */
async function withoutChallenge(response: Response): Promise<Response> {
  const headers = new Headers(response.headers);
  headers.delete('WWW-Authenticate');
  const text = await textOf(response, RESPONSE_BYTES_MAX);
  return new Response(text === '' ? null : text, { status: response.status, headers });
}

/** Sends a request; a response with a temporary status counts as none, because it may come from a proxy of a restarting server. */
const fetchAvailable =
  (stop: AbortSignal | undefined): client.CustomFetch =>
  async (address, { body, ...options }) => {
    const signals = [options.signal, stop].filter((signal) => signal !== undefined);
    try {
      const response = await fetch(address, { ...options, body: body ?? null, signal: AbortSignal.any(signals) });
      if (!isTemporary(response.status)) return await withoutChallenge(response);
      throw unreachable(address, `it answers ${response.status}`);
    } catch (error) {
      if (error instanceof UserError) throw error;
      stop?.throwIfAborted();
      const isLate = options.signal?.aborted === true;
      throw unreachable(address, isLate ? `no response within ${REQUEST_SECONDS} s` : causeOf(error));
    }
  };

/** Returns the client of the command line at a server whose addresses may be http on loopback; `safeAddress` has checked them. */
export function clientAt(metadata: client.ServerMetadata, stop?: AbortSignal): client.Configuration {
  const configuration = new client.Configuration(metadata, COMMAND_LINE_CLIENT, undefined, client.None());
  configuration[client.customFetch] = fetchAvailable(stop);
  configuration.timeout = REQUEST_SECONDS;
  client.allowInsecureRequests(configuration);
  return configuration;
}

/** Returns why the library failed: a `UserError` if the server is not reachable, otherwise what the server said. */
function failureOf(error: unknown): string | UserError {
  if (error instanceof client.ResponseBodyError) return reasonOf({ status: error.status, json: error.cause });
  const { cause, message } = error as Error;
  if (cause instanceof Response) return reasonOf({ status: cause.status, json: {} });
  return cause instanceof UserError ? cause : message;
}

/** Returns the result; throws a `UserError` with the sentence about the reason if the server refuses or is not reachable. */
async function result<T>(request: Promise<T>, sentenceOn: (reason: string) => string): Promise<T> {
  try {
    return await request;
  } catch (error) {
    const reason = failureOf(error);
    throw typeof reason === 'string' ? new UserError(sentenceOn(reason)) : reason;
  }
}

/** Reads the metadata of an issuer, which must name it (RFC 8414 §3.3). */
export async function discoverIssuer(issuer: string): Promise<client.ServerMetadata> {
  const request = client.discovery(new URL(issuer), COMMAND_LINE_CLIENT, undefined, client.None(), {
    algorithm: 'oauth2',
    timeout: REQUEST_SECONDS,
    [client.customFetch]: fetchAvailable(undefined),
    execute: [client.allowInsecureRequests],
  });
  const found = await result(
    request,
    (reason) => `The metadata of ${issuer} cannot be used (${reason}): the operator has to correct that`,
  );
  return found.serverMetadata();
}

const loginFailed = (reason: string): string => `You are not logged in: ${reason}. Run halcyon login again`;

/** The characters of a token (RFC 6749, appendix A.12). Others cannot be sent in a header, whose error would print the token. */
const TOKEN = /^[\x20-\x7e]+$/;

function loginOf(
  { issuer, token_endpoint = '', revocation_endpoint = '' }: client.ServerMetadata,
  { access_token, refresh_token, expires_in, scope }: client.TokenEndpointResponse,
  now: Date,
): Login {
  const isValid = TOKEN.test(access_token) && refresh_token !== undefined && TOKEN.test(refresh_token);
  const expiry = new Date(now.getTime() + (expires_in ?? NaN) * 1000);
  if (!isValid || Number.isNaN(expiry.getTime()))
    throw new UserError(`${token_endpoint} sent no valid token response: check that it is a Halcyon`);
  const expires = expiry.toISOString();
  return { issuer, token_endpoint, revocation_endpoint, access_token, refresh_token, expires, scope: String(scope) };
}

/** Redeems the code of the address to which the server has redirected the browser. */
export async function redeemCode(
  server: client.Configuration,
  redirected: URL,
  { verifier, state }: { verifier: string; state: string },
  now: Date,
): Promise<Login> {
  const checks = { pkceCodeVerifier: verifier, expectedState: state };
  const tokens = await result(client.authorizationCodeGrant(server, redirected, checks), loginFailed);
  return loginOf(server.serverMetadata(), tokens, now);
}

export function requestDeviceCode(server: client.Configuration): Promise<client.DeviceAuthorizationResponse> {
  const request = client.initiateDeviceAuthorization(server, { scope: 'store_full_access' });
  return result(request, (reason) => `You are not logged in: ${reason}`);
}

/**
 * Asks once whether the user has decided: returns the login, or whether to ask again at the same interval or a longer one (RFC 8628
 * §3.5). The library could poll by itself, but it keeps the process alive for up to five seconds after an abort.
 */
export async function pollDeviceCode(
  server: client.Configuration,
  deviceCode: string,
  now: Date,
): Promise<Login | 'pending' | 'slower'> {
  try {
    const tokens = await client.genericGrantRequest(server, DEVICE_GRANT, { device_code: deviceCode });
    return loginOf(server.serverMetadata(), tokens, now);
  } catch (error) {
    const code = error instanceof client.ResponseBodyError ? error.error : undefined;
    if (code === 'authorization_pending') return 'pending';
    if (code === 'slow_down') return 'slower';
    if (code === 'access_denied') throw new UserError(DENIED);
    if (error instanceof UserError) throw error;
    return result(Promise.reject(error as Error), loginFailed);
  }
}

/**
 * Error codes that end a login (RFC 6749 §5.2): its refresh token or its client is no longer valid. Any other response may come
 * from a proxy in front of a restarting server.
 */
const LOGIN_ENDED: ReadonlySet<string> = new Set(['invalid_grant', 'invalid_client']);

/** Refreshes the login; returns undefined if the server reports that it has ended, and throws an unreachable `UserError` otherwise. */
export async function refresh(login: Login, now: Date): Promise<Login | undefined> {
  try {
    return loginOf(login, await client.refreshTokenGrant(clientAt(login), login.refresh_token), now);
  } catch (error) {
    if (error instanceof UserError) throw error;
    const isRefused = error instanceof client.ResponseBodyError && (error.status === 400 || error.status === 401);
    if (isRefused && LOGIN_ENDED.has(error.error)) return undefined;
    const reason = failureOf(error);
    throw typeof reason === 'string' ? unreachable(login.token_endpoint, reason) : reason;
  }
}

/** Revokes the refresh token (RFC 7009), which ends the whole grant. */
export function revoke(login: Login): Promise<void> {
  const request = client.tokenRevocation(clientAt(login), login.refresh_token);
  return result(request, (reason) => `The login was not revoked: ${reason}`);
}
