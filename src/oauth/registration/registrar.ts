/** Who may register a client through the protocol (RFC 7591 §3): whom we know in one of three ways, or anybody if set so. */
import { recordDeed } from '#accounts/audit/audit.ts';
import type { Sessions } from '#accounts/sessions.ts';
import { addressPrefix } from '#accounts/throttle/prefix.ts';
import type { Throttle } from '#accounts/throttle/throttle.ts';
import { transaction, type Sql } from '#database/pool.ts';
import type { DoorRequest } from '#http/route.ts';
import { isSameOrigin } from '#http/same-origin.ts';
import { Problem } from '#kernel/problem.ts';
import type { Bearer } from '../bearer.ts';
import { hashToken, looksLike, mintToken } from '../tokens.ts';
import { insertRegistrationToken, isRegistrationToken } from './queries.ts';

const DAY_MS = 86_400_000;
const REALM = 'Bearer realm="halcyon"';

/** `invited` holds a registration token, `stranger` nothing. */
export type Registrar = { kind: 'platform' } | { kind: 'person'; userId: number } | { kind: 'invited' } | Stranger;
type Stranger = { kind: 'stranger'; /** For a try that made nothing. */ giveBack: () => Promise<void> };

export type RegistrarDeps = {
  sql: Sql;
  sessions: Sessions;
  throttle: Throttle;
  bearer: Bearer;
  /** The origin whose pages may use the session's cookie. */
  authOrigin: string;
  openRegistration: boolean;
};

/** Makes an initial access token (RFC 7591 §1.2): whoever has it may register clients for so long. It is shown this once. */
export const createRegistrationToken = (sql: Sql, { days, now }: { days: number; now: Date }): Promise<string> =>
  transaction(sql, async (tx) => {
    const { value, hash } = mintToken('registrationToken');
    await insertRegistrationToken(tx, { hash, now, expires: new Date(now.getTime() + days * DAY_MS) });
    const detail = { days };
    await recordDeed(tx, { action: 'registration_token_created', userId: null, origin: null, detail, now });
    return value;
  });

const byToken = async ({ sql, bearer }: RegistrarDeps, token: string, now: Date): Promise<Registrar> => {
  if (looksLike('registrationToken', token)) {
    if (await isRegistrationToken(sql, hashToken(token), now)) return { kind: 'invited' };
    const message = 'The registration token is unknown or has expired';
    const headers = { 'WWW-Authenticate': `${REALM}, error="invalid_token"` };
    throw new Problem(401, { code: 'invalid_token', message }, { headers });
  }
  const { scope } = await bearer(token, now);
  if (scope === 'platform') return { kind: 'platform' };
  const message = 'Registering a client needs a registration token or a token with the scope platform';
  const headers = { 'WWW-Authenticate': `${REALM}, error="insufficient_scope", scope="platform"` };
  throw new Problem(403, { code: 'insufficient_scope', message }, { headers });
};

const asStranger = async (
  { throttle, openRegistration }: RegistrarDeps,
  { address, now }: DoorRequest,
): Promise<Stranger> => {
  if (!openRegistration) {
    const message = 'Registering a client needs a registration token of the operator, as a bearer token';
    throw new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': REALM } });
  }
  const taken = await throttle.take([{ limit: 'registration from address', subject: addressPrefix(address) }], now);
  if (taken.allowed) return { kind: 'stranger', giveBack: taken.giveBack };
  const message = 'Too many clients were registered from this address; try again later';
  const headers = { 'Retry-After': String(taken.retryAfterSeconds) };
  throw new Problem(429, { code: 'too_many_requests', message }, { headers });
};

/** Throws a 401 or 403 with a challenge where they may not, and a 429 where they have registered too many. */
export const registrarOf = async (deps: RegistrarDeps, request: DoorRequest): Promise<Registrar> => {
  const token = /^Bearer +(\S+) *$/i.exec(request.headers['authorization'] ?? '')?.[1];
  if (token !== undefined) return byToken(deps, token, request.now);
  // A cookie comes along with whatever page sends the request, so it counts from our own pages only.
  const session = isSameOrigin(request.headers, deps.authOrigin) ? await deps.sessions.find(request) : null;
  return session === null ? asStranger(deps, request) : { kind: 'person', userId: session.userId };
};
