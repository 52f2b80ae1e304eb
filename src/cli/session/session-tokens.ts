/** Calls the token and revocation endpoints as a public client, authenticated by PKCE and by the refresh token. */
import { COMMAND_LINE_CLIENT } from '#identity/oauth/clients/clients.ts';
import { DEVICE_GRANT } from '#identity/oauth/token-endpoint.ts';
import { UserError } from '../explain.ts';
import type { Login } from './credentials.ts';
import {
  exchange,
  isTemporary,
  reasonOf,
  unreachable,
  type JsonResponse,
  type RequestOptions,
} from './json-request.ts';

export const DENIED = 'You did not allow it in the browser, so you are not logged in. To try again: halcyon login';

export type Endpoints = Pick<Login, 'issuer' | 'token_endpoint' | 'revocation_endpoint'>;

async function post(address: string, form: Record<string, string>, signal?: AbortSignal): Promise<JsonResponse> {
  const options: RequestOptions = {
    method: 'POST',
    body: new URLSearchParams({ client_id: COMMAND_LINE_CLIENT, ...form }),
    signal,
  };
  const response = await exchange(address, options);
  if (isTemporary(response.status)) throw unreachable(address, `it answers ${response.status}`);
  return response;
}

/** Returns the login of a token response. */
function loginOf(endpoints: Endpoints, { json }: JsonResponse, now: Date): Login {
  const { access_token: access, refresh_token: next, expires_in: seconds, scope } = json;
  if (typeof access !== 'string' || typeof next !== 'string' || typeof seconds !== 'number')
    throw new UserError(`${endpoints.token_endpoint} sent no valid token response: check that it is a Halcyon`);
  const { issuer, token_endpoint, revocation_endpoint } = endpoints;
  const expires = new Date(now.getTime() + seconds * 1000).toISOString();
  return {
    issuer,
    token_endpoint,
    revocation_endpoint,
    access_token: access,
    refresh_token: next,
    expires,
    scope: String(scope),
  };
}

export async function redeemCode(
  endpoints: Endpoints,
  proof: { code: string; code_verifier: string; redirect_uri: string },
  now: Date,
): Promise<Login> {
  const response = await post(endpoints.token_endpoint, { grant_type: 'authorization_code', ...proof });
  if (response.status === 200) return loginOf(endpoints, response, now);
  throw new UserError(`You are not logged in: ${reasonOf(response)}. Run halcyon login again`);
}

/** A code that waits for the decision of a user (RFC 8628 §3.2). */
export type DeviceCode = {
  deviceCode: string;
  userCode: string;
  verificationUri: string;
  intervalSeconds: number;
};

export async function requestDeviceCode(deviceEndpoint: string): Promise<DeviceCode> {
  const response = await post(deviceEndpoint, { scope: 'store_full_access' });
  const { device_code: deviceCode, user_code: userCode, verification_uri: uri, interval = 5 } = response.json;
  const isComplete = typeof deviceCode === 'string' && typeof userCode === 'string' && typeof uri === 'string';
  if (response.status === 200 && isComplete && typeof interval === 'number')
    return { deviceCode, userCode, verificationUri: uri, intervalSeconds: interval };
  throw new UserError(`You are not logged in: ${reasonOf(response)}`);
}

/** Asks once whether the user has decided: returns the login, or whether to ask again at the same interval or a longer one. */
export async function pollDeviceCode(
  endpoints: Endpoints,
  { deviceCode }: DeviceCode,
  { now, signal }: { now: Date; signal: AbortSignal },
): Promise<Login | 'pending' | 'slower'> {
  const form = { grant_type: DEVICE_GRANT, device_code: deviceCode };
  const response = await post(endpoints.token_endpoint, form, signal);
  if (response.status === 200) return loginOf(endpoints, response, now);
  switch (response.json['error']) {
    case 'authorization_pending':
      return 'pending';
    case 'slow_down':
      return 'slower';
    case 'access_denied':
      throw new UserError(DENIED);
    default:
      throw new UserError(`You are not logged in: ${reasonOf(response)}. Run halcyon login again`);
  }
}

/**
 * Error codes that end a login (RFC 6749 §5.2): its refresh token or its client is no longer valid. Any other response may come
 * from a proxy in front of a restarting server.
 */
const LOGIN_ENDED: ReadonlySet<unknown> = new Set(['invalid_grant', 'invalid_client']);

/** Refreshes the login; returns undefined if the server reports that it has ended, and throws an unreachable `UserError` otherwise. */
export async function refresh(login: Login, now: Date): Promise<Login | undefined> {
  const response = await post(login.token_endpoint, {
    grant_type: 'refresh_token',
    refresh_token: login.refresh_token,
  });
  if (response.status === 200) return loginOf(login, response, now);
  const isRefused = response.status === 400 || response.status === 401;
  if (isRefused && LOGIN_ENDED.has(response.json['error'])) return undefined;
  throw unreachable(login.token_endpoint, reasonOf(response));
}

/** Revokes the refresh token (RFC 7009), which ends the whole grant. */
export async function revoke(login: Login): Promise<void> {
  const response = await post(login.revocation_endpoint, { token: login.refresh_token });
  if (response.status !== 200) throw new UserError(`The login was not revoked: ${reasonOf(response)}`);
}
