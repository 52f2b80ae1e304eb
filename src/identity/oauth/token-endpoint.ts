/**
 * POST /token (RFC 6749 §3.2): parses the form, authenticates the client and runs the grant type. The first statement of each grant type
 * requires an authenticated client.
 */
import { originOf } from '#identity/accounts/audit.ts';
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { RevocationEffects } from './grants.ts';
import {
  areOwnResources,
  readForm,
  type AuthenticateClient,
  type FindAuthenticated,
  type Form,
  verifierFits,
  answeringRefusals,
} from './protocol-requests.ts';
import { tokenErrors, TokenRefusal, type TokenFault } from './oauth-errors.ts';
import {
  hashToken,
  idleUntil,
  issueAccessToken,
  looksLike,
  maxSecondsOf,
  redeem,
  successorsOf,
  tokenAnswer,
  type Lifetimes,
  type TokenAnswer,
} from './oauth-tokens.ts';
import {
  findAuthenticatedClient,
  type AuthenticatedClient,
  endFormerTokens,
  findClientWithCode,
  insertPlatformToken,
  refreshGrant,
  type CodeRow,
  type Refreshed,
} from './grants-sql.ts';
import type { Keys } from '#core/keys.ts';
import { HALCYON } from '#changelog/changelog.ts';
import { endGrant } from './revoke.ts';
import { narrowedTo, scopeEntries } from './scope.ts';
import { pollDevice, type DeviceState } from './authorize/authorize-sql.ts';

/** The rotation of refresh tokens: the keys that derive successors, and how long rotated tokens are kept. */
type Rotation = { successorKeys: Keys; rotatedTokenKeptDays: number };

type Exchange = {
  sql: Sql;
  /** For a grant that is revoked here, after reuse. */
  effects: RevocationEffects;
  /** Authenticates the client within the first statement of the grant type. Throws `invalid_client`. */
  authenticate: <Found>(find: FindAuthenticated<Found>) => Promise<Found>;
  /** Throws the fault of the form, after authenticating the client. */
  refuse: (fault: TokenFault) => Promise<never>;
  form: Form;
  request: RawRequest;
  lifetimes: Lifetimes;
  rotation: Rotation;
  now: Date;
};

/** Authenticates the client, then returns tokens or throws a `TokenRefusal`. */
type GrantHandler = (exchange: Exchange) => Promise<TokenAnswer>;

/** The form that contains the code, and the authenticated client. */
type Presented = Pick<Exchange, 'form' | 'now'> & { client: AuthenticatedClient };
type Step = (code: CodeRow, presented: Presented) => TokenFault | undefined;

const refuseIf =
  (fault: TokenFault, isWrong: (code: CodeRow, presented: Presented) => boolean): Step =>
  (code, presented) =>
    isWrong(code, presented) ? fault : undefined;

/** Returns the redirect_uri of the form, or a legacy client's only registered one. */
const effectiveRedirectUri = ({ form, client }: Presented): string | null =>
  form.redirect_uri ?? client.impliedRedirectUri;

/** Returns the fault of a code whose grant is not in effect, or whose time has passed. */
function notRedeemable(code: CodeRow, now: Date, expired: TokenFault): TokenFault | undefined {
  if (code.revoked || code.disabled) return tokenErrors.revokedGrant;
  if (code.suspended) return tokenErrors.suspendedStore;
  return now < code.expires ? undefined : expired;
}

const steps: readonly (readonly [what: string, step: Step])[] = [
  ['client binding', refuseIf(tokenErrors.unknownCode, (code, { client }) => code.client !== client.id)],
  ['redirect_uri', refuseIf(tokenErrors.noRedirectUri, (_code, presented) => effectiveRedirectUri(presented) === null)],
  // Exactly the address that the code was sent to (RFC 6749 §4.1.3).
  ['redirect_uri', refuseIf(tokenErrors.otherRedirectUri, (code, of) => effectiveRedirectUri(of) !== code.redirectUri)],
  // The only authentication of a public client is the verifier (RFC 9700 §2.1.1).
  ['PKCE', refuseIf(tokenErrors.noChallenge, (code, { client }) => client.isPublic && code.codeChallenge === null)],
  ['PKCE', refuseIf(tokenErrors.wrongVerifier, (code, of) => !verifierFits(of.form.code_verifier, code.codeChallenge))],
  // Precedes the check of expiry, because reuse after the 30 seconds also shows that the code has leaked.
  ['used once', refuseIf(tokenErrors.usedCode, (code) => code.used)],
  ['in effect', (code, { now }) => notRedeemable(code, now, tokenErrors.expiredCode)],
];

/** Revokes the grant: a code or a rotated token that its client presents again has leaked (RFC 6749 §4.1.2, RFC 9700 §4.5). */
async function refuseReuse(
  { sql, effects, request, now }: Exchange,
  grantId: number,
  reused: 'code' | 'refresh_token',
): Promise<never> {
  const origin = originOf(request);
  await endGrant(sql, effects, { grantId, action: `${reused}_reused`, actor: HALCYON, origin, now });
  throw new TokenRefusal(reused === 'code' ? tokenErrors.usedCode : tokenErrors.invalidRefreshToken);
}

/**
 * grant_type=authorization_code (RFC 6749 §4.1.3): one statement authenticates the client and finds the code, a table of
 * checks follows in the order of the API contract, and one statement redeems the code.
 */
const exchangeCode: GrantHandler = async (exchange) => {
  const { sql, authenticate, refuse, form, lifetimes, now } = exchange;
  if (form.code === undefined) return refuse(tokenErrors.noCode);
  if (!looksLike('authorizationCode', form.code)) return refuse(tokenErrors.unknownCode);
  const hash = hashToken(form.code);
  const { client, code } = await authenticate((claim) => findClientWithCode(sql, claim, hash));
  if (code === undefined) throw new TokenRefusal(tokenErrors.unknownCode);
  for (const [, step] of steps) {
    const fault = step(code, { client, form, now });
    if (fault === tokenErrors.usedCode) return refuseReuse(exchange, code.grantId, 'code');
    if (fault !== undefined) throw new TokenRefusal(fault);
  }
  // A lost race is reuse too: which of the two requests was the attacker's is unknown, so the winner's tokens are
  // revoked as well.
  return (await redeem(sql, hash, code, { lifetimes, now })) ?? refuseReuse(exchange, code.grantId, 'code');
};

/** The period in which a token that a process of the version before has rotated returns its successor again. */
const RETRY_SECONDS = 10;
const DAY_MS = 86_400_000;

type Refused = Exclude<Refreshed, { outcome: 'issued' }>;

async function refuseRefresh(refused: Refused, exchange: Exchange): Promise<never> {
  switch (refused.outcome) {
    case 'reused':
      return refuseReuse(exchange, refused.grantId, 'refresh_token');
    case 'unknown':
    case 'ended':
      throw new TokenRefusal(tokenErrors.invalidRefreshToken);
    case 'suspended':
      throw new TokenRefusal(tokenErrors.suspendedStore);
    case 'out of scope':
      throw new TokenRefusal(tokenErrors.invalidScope);
  }
}

/**
 * grant_type=refresh_token (RFC 6749 §6), in one statement that also authenticates the client. A client with stable tokens
 * gets the same refresh token back, with its idle period restarted. A client with rotating tokens gets a successor, and
 * with the old token the same one again until it is used; later use of the old token revokes the grant (`refreshGrant` has the states).
 */
const refreshAccess: GrantHandler = async (exchange) => {
  const { sql, authenticate, refuse, form, lifetimes, rotation, now } = exchange;
  const presented = form.refresh_token;
  if (presented === undefined) return refuse(tokenErrors.noRefreshToken);
  if (!looksLike('refreshToken', presented)) return refuse(tokenErrors.invalidRefreshToken);
  const scope = scopeEntries(form.scope ?? '');
  // No granted scope contains a NUL, and PostgreSQL rejects text with one.
  if (scope.some((entry) => entry.includes('\0'))) return refuse(tokenErrors.invalidScope);
  const narrowed = narrowedTo(scope);
  const access = issueAccessToken(now, lifetimes);
  const [successor, ...others] = successorsOf(rotation.successorKeys, presented);
  const parameters = {
    hash: hashToken(presented),
    scope,
    narrowedTo: narrowed,
    access: access.stored,
    successor: { hash: successor.hash, others: others.map(({ hash }) => hash) },
    idleUntil: idleUntil(now, lifetimes),
    grantSecondsMax: maxSecondsOf(lifetimes),
    rotatedUntil: new Date(now.getTime() + rotation.rotatedTokenKeptDays * DAY_MS),
    reusedSince: new Date(now.getTime() - RETRY_SECONDS * 1_000),
    now,
  };
  const refreshed = await authenticate((claim) => refreshGrant(sql, claim, parameters));
  if (refreshed.outcome !== 'issued') return refuseRefresh(refreshed, exchange);
  const { grantId, retries, successor: current } = refreshed;
  if (retries) await endFormerTokens(sql, { grantId, hash: parameters.hash, successor: current }, parameters);
  const stored = [successor, ...others].find(({ hash }) => hash.equals(current)) ?? successor;
  const refresh = refreshed.rotates ? stored.value : presented;
  const limited = narrowed !== null && ({ scope: 'store_limited', permissions: narrowed } as const);
  return tokenAnswer({ access: access.value, refresh }, { ...refreshed, ...limited }, lifetimes);
};

const SCOPE = 'platform';

/** grant_type=client_credentials (RFC 6749 §4.4): access for the platform, by clients that the operator trusts. */
const grantPlatform: GrantHandler = async ({ sql, authenticate, form, lifetimes, now }) => {
  const client = await authenticate((claim) => findAuthenticatedClient(sql.reads, claim));
  if (!client.isTrusted) throw new TokenRefusal(tokenErrors.unauthorizedClient);
  if (form.scope !== undefined && form.scope !== SCOPE) throw new TokenRefusal(tokenErrors.invalidScope);
  const { value, stored } = issueAccessToken(now, lifetimes);
  const isIssued = await insertPlatformToken(sql, { client: client.id, access: stored, now });
  if (!isIssued) throw new TokenRefusal(tokenErrors.invalidClient);
  // No refresh token (RFC 6749 §4.4.3): the client can use its secret again.
  return {
    access_token: value,
    expires_in: lifetimes.accessTokenLifetimeSeconds,
    token_type: 'Bearer',
    scope: SCOPE,
  };
};

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

const undecided: Readonly<Record<Exclude<DeviceState, null>, TokenFault>> = {
  pending: tokenErrors.authorizationPending,
  'too fast': tokenErrors.slowDown,
  denied: tokenErrors.deviceDenied,
  expired: tokenErrors.expiredDevice,
};

function faultOf(code: CodeRow, client: number, now: Date): TokenFault | undefined {
  if (code.client !== client) return tokenErrors.unknownDevice;
  if (code.used) return tokenErrors.usedDevice;
  return notRedeemable(code, now, tokenErrors.expiredDevice);
}

/**
 * grant_type=urn:ietf:params:oauth:grant-type:device_code (RFC 8628 §3.4). One statement finds a code that waits for a decision; an
 * approved code is a row of authorization_code, and redeemed like one.
 */
const exchangeDeviceCode: GrantHandler = async ({ sql, authenticate, refuse, form, lifetimes, now }) => {
  if (form.device_code === undefined) return refuse(tokenErrors.noDevice);
  if (!looksLike('deviceCode', form.device_code)) return refuse(tokenErrors.unknownDevice);
  const hash = hashToken(form.device_code);
  const { state } = await authenticate((claim) => pollDevice(sql, claim, hash));
  if (state !== null) throw new TokenRefusal(undecided[state]);
  // In this order: an approval between the two statements is seen by the second.
  const { client, code } = await authenticate((claim) => findClientWithCode(sql, claim, hash));
  const fault = code === undefined ? tokenErrors.unknownDevice : faultOf(code, client.id, now);
  if (code === undefined || fault !== undefined) throw new TokenRefusal(fault ?? tokenErrors.unknownDevice);
  const tokens = await redeem(sql, hash, code, { lifetimes, now });
  // Unlike the reuse of an authorization code this is no sign of theft: a device polls again after a time-out (RFC 8628 §3.5).
  if (tokens === undefined) throw new TokenRefusal(tokenErrors.usedDevice);
  return tokens;
};

const grants: ReadonlyMap<string, GrantHandler> = new Map([
  ['authorization_code', exchangeCode],
  ['refresh_token', refreshAccess],
  ['client_credentials', grantPlatform],
  [DEVICE_GRANT, exchangeDeviceCode],
]);

/**
 * Number of statements, including client authentication: 2 for a code, 1 for a refresh, 2 for client_credentials; 1 for a poll of a
 * device, 3 for its tokens.
 */
export function createTokenEndpoint(
  { sql, config, derive }: Runtime,
  { authenticate, effects }: { authenticate: AuthenticateClient; effects: RevocationEffects },
): RawHandler {
  const { baseUrl, oauth, housekeeping } = config;
  const { rotatedTokenKeptDays } = housekeeping;
  const rotation: Rotation = { successorKeys: derive('refresh token successor'), rotatedTokenKeptDays };
  return answeringRefusals(async (request) => {
    const form = readForm(request);
    const exchange: Exchange = {
      sql,
      effects,
      lifetimes: oauth,
      rotation,
      form,
      authenticate: (find) => authenticate(request, form, find),
      refuse: async (fault) => {
        await authenticate(request, form, (claim) => findAuthenticatedClient(sql.reads, claim));
        throw new TokenRefusal(fault);
      },
      request,
      now: request.now,
    };
    if (!areOwnResources(request.form.getAll('resource'), baseUrl)) return exchange.refuse(tokenErrors.invalidTarget);
    if (form.grant_type === undefined) return exchange.refuse(tokenErrors.noGrantType);
    const grant = grants.get(form.grant_type);
    if (grant === undefined) return exchange.refuse(tokenErrors.unsupportedGrantType);
    return jsonAnswer(200, await grant(exchange));
  });
}
