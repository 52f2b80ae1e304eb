/** Who may register a client through the protocol (RFC 7591 §3): whom we know in one of three ways, or anybody if set so. */
import type { Sessions } from '#identity/accounts/sessions.ts';
import { addressPrefix } from '#identity/accounts/throttle/prefix.ts';
import type { Bucket, Throttle } from '#identity/accounts/throttle/throttle.ts';
import type { Sql } from '#db/pool.ts';
import { bearerTokenOf } from '#http/bearer-token.ts';
import type { RawRequest } from '#http/route.ts';
import { isSameOrigin } from '#http/pages/same-origin.ts';
import { Problem } from '#core/problem.ts';
import type { Bearer } from '../bearer.ts';
import { callerOf, type Caller } from '../clients/action.ts';
import { looksLike } from '../tokens.ts';
import { markOfInvitation } from './invitation.ts';

const REALM = 'Bearer realm="halcyon"';

/** `invited` holds a registration token, `stranger` nothing; how many clients these two make is counted. */
export type Registrar =
  | { kind: 'platform'; caller: Caller | undefined }
  | { kind: 'person'; userId: number }
  | ({ kind: 'invited'; caller: Caller } & Counted)
  | ({ kind: 'stranger' } & Counted);
type Counted = { /** For a try that made nothing. */ giveBack: () => Promise<void> };

export type RegistrarDeps = {
  sql: Sql;
  sessions: Sessions;
  throttle: Throttle;
  bearer: Bearer;
  /** The origin whose pages may use the session's cookie. */
  authOrigin: string;
  openRegistration: boolean;
};

const count = async ({ throttle }: RegistrarDeps, bucket: Bucket, now: Date): Promise<Counted> => {
  const taken = await throttle.take([bucket], now);
  if (taken.allowed) return { giveBack: taken.giveBack };
  const way = bucket.limit === 'registration by token' ? 'with this token' : 'from this address';
  const message = `Too many clients were registered ${way}; try again later`;
  const headers = { 'Retry-After': String(taken.retryAfterSeconds) };
  throw new Problem(429, { code: 'too_many_requests', message }, { headers });
};

const byToken = async (deps: RegistrarDeps, token: string, now: Date): Promise<Registrar> => {
  if (looksLike('registrationToken', token)) {
    const mark = await markOfInvitation(deps.sql, token, now);
    if (mark !== undefined) {
      const counted = await count(deps, { limit: 'registration by token', subject: mark }, now);
      return { kind: 'invited', caller: { registration_token: mark }, ...counted };
    }
    const message = 'The registration token is unknown or has expired';
    const headers = { 'WWW-Authenticate': `${REALM}, error="invalid_token"` };
    throw new Problem(401, { code: 'invalid_token', message }, { headers });
  }
  const { scope, clientId, publicClientId } = await deps.bearer(token, now);
  if (scope === 'platform') return { kind: 'platform', caller: callerOf(clientId, publicClientId) };
  const message = 'Registering a client needs a registration token or a token with the scope platform';
  const headers = { 'WWW-Authenticate': `${REALM}, error="insufficient_scope", scope="platform"` };
  throw new Problem(403, { code: 'insufficient_scope', message }, { headers });
};

const asStranger = async (deps: RegistrarDeps, { address, now }: RawRequest): Promise<Registrar> => {
  if (!deps.openRegistration) {
    const message = 'Registering a client needs a registration token of the operator, as a bearer token';
    throw new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': REALM } });
  }
  const bucket = { limit: 'registration from address', subject: addressPrefix(address) } as const;
  return { kind: 'stranger', ...(await count(deps, bucket, now)) };
};

/** Throws a 401 or 403 with a challenge where they may not, and a 429 where they have registered too many. */
export const registrarOf = async (deps: RegistrarDeps, request: RawRequest): Promise<Registrar> => {
  const token = bearerTokenOf(request.headers['authorization']);
  if (token !== undefined) return byToken(deps, token, request.now);
  // A cookie comes along with whatever page sends the request, so it counts from our own pages only.
  const session = isSameOrigin(request.headers, deps.authOrigin) ? await deps.sessions.find(request) : null;
  return session === null ? asStranger(deps, request) : { kind: 'person', userId: session.userId };
};
