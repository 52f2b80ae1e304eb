/** The token endpoint for this client, which is public: it proves itself by PKCE and by the token that it replaces. */
import { COMMAND_LINE_CLIENT } from '#identity/oauth/clients/command-line.ts';
import { UserError } from '../explain.ts';
import type { Login } from './credentials.ts';
import { exchange, isTemporary, reasonOf, unreachable, type JsonResponse, type RequestOptions } from './exchange.ts';

type Place = Pick<Login, 'issuer' | 'token_endpoint' | 'revocation_endpoint'>;

const post = async (address: string, form: Record<string, string>, signal?: AbortSignal): Promise<JsonResponse> => {
  const asked: RequestOptions = {
    method: 'POST',
    body: new URLSearchParams({ client_id: COMMAND_LINE_CLIENT, ...form }),
    signal,
  };
  const answered = await exchange(address, asked);
  if (isTemporary(answered.status)) throw unreachable(address, `it answers ${answered.status}`);
  return answered;
};

/** `login` with what the server has given. */
const loginOf = (place: Place, { json }: JsonResponse, now: Date): Login => {
  const { access_token: access, refresh_token: refresh, expires_in: seconds, scope } = json;
  if (typeof access !== 'string' || typeof refresh !== 'string' || typeof seconds !== 'number')
    throw new UserError(`${place.token_endpoint} gives no tokens that can be read: is that a Halcyon?`);
  const { issuer, token_endpoint, revocation_endpoint } = place;
  const expires = new Date(now.getTime() + seconds * 1000).toISOString();
  return {
    issuer,
    token_endpoint,
    revocation_endpoint,
    access_token: access,
    refresh_token: refresh,
    expires,
    scope: String(scope),
  };
};

export const redeemCode = async (
  place: Place,
  given: { code: string; code_verifier: string; redirect_uri: string },
  now: Date,
): Promise<Login> => {
  const answered = await post(place.token_endpoint, { grant_type: 'authorization_code', ...given });
  if (answered.status === 200) return loginOf(place, answered, now);
  throw new UserError(`You are not logged in: ${reasonOf(answered)}. Run halcyon login again`);
};

/**
 * What says that a login is over (RFC 6749 §5.2): its token counts no more, or the server has not even the client that it was given
 * to. Whatever else is answered may be somebody else's, such as a proxy before a server that restarts.
 */
const OVER: ReadonlySet<unknown> = new Set(['invalid_grant', 'invalid_client']);

/** Undefined where the server says that this login is over; throws an unreachable `UserError` for any other answer but tokens. */
export const refresh = async (login: Login, now: Date): Promise<Login | undefined> => {
  const answered = await post(login.token_endpoint, {
    grant_type: 'refresh_token',
    refresh_token: login.refresh_token,
  });
  if (answered.status === 200) return loginOf(login, answered, now);
  const isRefused = answered.status === 400 || answered.status === 401;
  if (isRefused && OVER.has(answered.json['error'])) return undefined;
  throw unreachable(login.token_endpoint, reasonOf(answered));
};

/** RFC 7009: with the refresh token ends all that the person has allowed. */
export const revoke = async (login: Login): Promise<void> => {
  const answered = await post(login.revocation_endpoint, { token: login.refresh_token });
  if (answered.status !== 200) throw new UserError(`The server keeps the login: ${reasonOf(answered)}`);
};
