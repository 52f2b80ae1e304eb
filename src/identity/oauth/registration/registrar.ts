/**
 * Authorizes client registration (RFC 7591 §3): by platform token, session or registration token, or openly if so
 * configured.
 */
import { isFresh } from '#identity/accounts/factors/step-up.ts';
import type { Sessions } from '#identity/accounts/sessions.ts';
import { addressPrefix } from '#identity/accounts/throttle/prefix.ts';
import type { Bucket, Throttle } from '#identity/accounts/throttle/throttle.ts';
import type { Sql } from '#db/pool.ts';
import { bearerTokenOf } from '#http/caller.ts';
import { REALM } from '#http/challenge.ts';
import type { RawRequest } from '#http/route.ts';
import { isSameOrigin } from '#http/pages/own-pages.ts';
import { Problem } from '#core/problem.ts';
import type { Bearer } from '../bearer.ts';
import { callerOf, type Caller } from '../clients/action.ts';
import { looksLike } from '../tokens.ts';
import { findRegistrationTokenId } from './invitation.ts';

/** `token` is a registration token, `anonymous` an open registration; both are throttled. */
export type Registrar =
  | { kind: 'platform'; caller: Caller | undefined }
  | { kind: 'user'; userId: number }
  | ({ kind: 'token'; caller: Caller } & Throttled)
  | ({ kind: 'anonymous' } & Throttled);
type Throttled = {
  /** Returns the throttle token of a request that created no client. */ giveBack: () => Promise<void>;
};

export type RegistrarDeps = {
  sql: Sql;
  sessions: Sessions;
  throttle: Throttle;
  bearer: Bearer;
  /** The origin whose pages may use the session's cookie. */
  authOrigin: string;
  authUrl: string;
  openRegistration: boolean;
};

async function takeFrom({ throttle }: RegistrarDeps, bucket: Bucket, now: Date): Promise<Throttled> {
  const taken = await throttle.take([bucket], now);
  if (taken.allowed) return { giveBack: taken.giveBack };
  const source = bucket.limit === 'registration by token' ? 'with this token' : 'from this address';
  const message = `Too many clients were registered ${source}; try again later`;
  const headers = { 'Retry-After': String(taken.retryAfterSeconds) };
  throw new Problem(429, { code: 'too_many_requests', message }, { headers });
}

async function byToken(deps: RegistrarDeps, token: string, now: Date): Promise<Registrar> {
  if (looksLike('registrationToken', token)) {
    const id = await findRegistrationTokenId(deps.sql, token, now);
    if (id !== undefined) {
      const throttled = await takeFrom(deps, { limit: 'registration by token', subject: id }, now);
      return { kind: 'token', caller: { registration_token: id }, ...throttled };
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
}

async function anonymously(deps: RegistrarDeps, { address, now }: RawRequest): Promise<Registrar> {
  if (!deps.openRegistration) {
    const message = 'Registering a client needs a registration token of the operator, as a bearer token';
    throw new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': REALM } });
  }
  const bucket = { limit: 'registration from address', subject: addressPrefix(address) } as const;
  return { kind: 'anonymous', ...(await takeFrom(deps, bucket, now)) };
}

/**
 * Returns the registrar. Throws a 401 or 403 with a challenge if registration is not permitted, and a 429 if it is
 * throttled.
 */
export async function registrarOf(deps: RegistrarDeps, request: RawRequest): Promise<Registrar> {
  const token = bearerTokenOf(request.headers['authorization']);
  if (token !== undefined) return byToken(deps, token, request.now);
  // Browsers send the session cookie with requests of any page, so it is accepted only from the pages of this origin.
  const session = isSameOrigin(request.headers, deps.authOrigin) ? await deps.sessions.find(request) : null;
  if (session === null) return anonymously(deps, request);
  if (!session.isEmailVerified) {
    const message = 'Confirm your e-mail address first: choose a new password with a link that is mailed to it';
    throw new Problem(403, { code: 'email_not_verified', message });
  }
  if (isFresh(session, request.now)) return { kind: 'user', userId: session.userId };
  const message = `Confirm that it is you at ${deps.authUrl}/account/confirm, then register within ten minutes`;
  throw new Problem(403, { code: 'confirmation_required', message });
}
