/**
 * The secrets that are issued to clients, 32 random bytes after a prefix for the type, and the authentication by access token (RFC 6750),
 * which is not cached while the home database is available.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import { OPERATOR, type Actor } from '#changelog/changelog.ts';
import type { Sql, Tx } from '#db/pool.ts';
import { isClosedTo, lockMembership } from './authorize/authorize-sql.ts';
import { grantChanges, type RevocationEffects } from './grants.ts';
import { endPredecessor, insertStoreGrant, redeemCode, type Granted, type StoredToken } from './grants-sql.ts';
import { scopeOfGrants, scopeText, type GrantedScope } from './scope.ts';
import { bearerChallenge, INVALID_TOKEN } from '#http/root.ts';
import { createLookup } from '#db/batch.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { suspensionsOf, type Principal } from '#core/principal.ts';
import { invalid, invalidValue, Problem, suspended } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { findBearers, touchGrant, type BearerRow, type GrantStatus } from './oauth-sql.ts';

const TOKEN_BYTES = 32;

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const prefixes = {
  accessToken: 'hal_at_',
  refreshToken: 'hal_rt_',
  authorizationCode: 'hal_ac_',
  deviceCode: 'hal_dc_',
  clientSecret: 'hal_cs_',
  registrationToken: 'hal_it_',
  managementToken: 'hal_mt_',
} as const;

type TokenKind = keyof typeof prefixes;

/** A secret and its stored hash. */
export type CreatedToken = { value: string; hash: Buffer };

/**
 * Returns the SHA-256 of the whole value, by which the row is looked up. A slow hash or a salt would add nothing, because 32
 * random bytes cannot be guessed.
 */
export function hashToken(value: string): Buffer {
  return createHash('sha256').update(value).digest();
}

export function createToken(kind: TokenKind): CreatedToken {
  const value = prefixes[kind] + randomBytes(TOKEN_BYTES).toString('base64url');
  return { value, hash: hashToken(value) };
}

/**
 * Returns the successor of a refresh token: its HMAC-SHA256 under a key of this server. A client that retries because the
 * response was lost gets the same successor, although only hashes are stored.
 */
function successorWith(key: Buffer, refreshToken: string): CreatedToken {
  const value = prefixes.refreshToken + createHmac('sha256', key).update(refreshToken).digest('base64url');
  return { value, hash: hashToken(value) };
}

/** Returns the successor under the current key, and those that a process with another key would have issued. */
export function successorsOf([key, ...others]: Keys, refreshToken: string): [CreatedToken, ...CreatedToken[]] {
  return [successorWith(key, refreshToken), ...others.map((other) => successorWith(other, refreshToken))];
}

/** Returns whether the text has the format of this kind of token; if not, a lookup is unnecessary. */
export function looksLike(kind: TokenKind, text: string): boolean {
  return text.startsWith(prefixes[kind]) && /^[A-Za-z0-9_-]{43}$/.test(text.slice(prefixes[kind].length));
}

const TOKENS = new RegExp(`(${Object.values(prefixes).join('|')})[A-Za-z0-9_-]+`, 'g');

/** Returns the text for display, with each secret in it cut to its prefix. */
export function withoutTokens(text: string): string {
  return text.replaceAll(TOKENS, '$1…');
}

const DAY_MS = 86_400_000;

/** `refreshTokenMaxDays` count from the consent, `refreshTokenIdleDays` from the last use. */
export type Lifetimes = {
  accessTokenLifetimeSeconds: number;
  refreshTokenIdleDays: number;
  refreshTokenMaxDays: number;
};

/** The token response of RFC 6749 §5.1; without `refresh_token` for client_credentials. */
export type TokenAnswer = {
  access_token: string;
  refresh_token?: string;
  /** Seconds. */
  expires_in: number;
  token_type: 'Bearer';
  scope: string;
};

type Issued = { value: string; stored: StoredToken };

/** Returns the expiry of a refresh token that is issued or used now, unless the maximum since the consent ends it before. */
export function idleUntil(now: Date, { refreshTokenIdleDays }: Lifetimes): Date {
  return new Date(now.getTime() + refreshTokenIdleDays * DAY_MS);
}

export function maxSecondsOf({ refreshTokenMaxDays }: Lifetimes): number {
  return (refreshTokenMaxDays * DAY_MS) / 1_000;
}

export function issueAccessToken(now: Date, lifetimes: Lifetimes): Issued {
  const { value, hash } = createToken('accessToken');
  return {
    value,
    stored: { hash, expires: new Date(now.getTime() + lifetimes.accessTokenLifetimeSeconds * 1_000) },
  };
}

function issueRefreshToken(now: Date, lifetimes: Lifetimes): Issued {
  const { value, hash } = createToken('refreshToken');
  const expires = Math.min(idleUntil(now, lifetimes).getTime(), now.getTime() + maxSecondsOf(lifetimes) * 1_000);
  return { value, stored: { hash, expires: new Date(expires) } };
}

export function tokenAnswer(
  values: { access: string; refresh: string },
  granted: Granted,
  lifetimes: Lifetimes,
): TokenAnswer & { refresh_token: string } {
  return {
    access_token: values.access,
    refresh_token: values.refresh,
    expires_in: lifetimes.accessTokenLifetimeSeconds,
    token_type: 'Bearer',
    scope: scopeText(granted, granted.storeId),
  };
}

/** Redeems a code once, and returns its tokens; undefined if it was redeemed before. */
export async function redeem(
  sql: Sql,
  hash: Buffer,
  granted: Granted,
  { lifetimes, now }: { lifetimes: Lifetimes; now: Date },
) {
  const [access, refresh] = [issueAccessToken(now, lifetimes), issueRefreshToken(now, lifetimes)];
  const isFirst = await redeemCode(sql, hash, { access: access.stored, refresh: refresh.stored }, now);
  return isFirst ? tokenAnswer({ access: access.value, refresh: refresh.value }, granted, lifetimes) : undefined;
}

/**
 * Grants a client access to a store on behalf of a member, without consent page and code, for the operator and the platform. `clientId` is
 * the public id; `permissions`: null for full access; `ends`: null for access that is kept; `requiresFactor`: whether the operator requires
 * a second factor of everyone. Throws a 400 unless the user is a member of the store, which is not suspended. Call it in a transaction, because it also writes the store's changelog.
 */
export async function grantStoreAccess(
  tx: Tx,
  { changelog, accessChanged }: RevocationEffects,
  lifetimes: Lifetimes,
  grant: Pick<GrantedScope, 'permissions'> & {
    clientId: string;
    userId: number;
    storeId: number;
    requiresFactor: boolean;
    ends?: Date | null;
    actor?: Actor;
    now: Date;
  },
): Promise<TokenAnswer & { refresh_token: string }> {
  const { clientId, userId, storeId, permissions, ends = null, actor = OPERATOR, now } = grant;
  if (!(await lockMembership(tx, userId, storeId))) throw invalid(invalidValue('store', NOT_A_MEMBER));
  if (await isClosedTo(tx, grant)) throw new Problem(409, { code: 'store_closed', message: CLOSED, field: 'store' });
  const [access, refresh] = [issueAccessToken(now, lifetimes), issueRefreshToken(now, lifetimes)];
  const tokens = { access: access.stored, refresh: refresh.stored };
  const granted = { ...scopeOfGrants(storeId, permissions), storeId };
  const made = await insertStoreGrant(tx, { ...granted, clientId, userId, ends, tokens, now });
  if (made === undefined) throw new RangeError(`There is no client ${clientId}`);
  const changes = grantChanges([{ ...made, userId, storeId, permissions, clientId }], { actor, action: 'given' });
  await changelog.record(tx, changes, now);
  await accessChanged(tx, { client: made.client, userId, storeId }, now);
  return tokenAnswer({ access: access.value, refresh: refresh.value }, granted, lifetimes);
}

const NOT_A_MEMBER = 'store must be a store of which the owner of the app is a member, and that is not suspended';

const CLOSED =
  'The owner of the app may not let apps into this store: their account is disabled, or they have no second factor, which is required';

const EXPIRED = 'The access token provided has expired';

/** Resolution of "last used": one update per hour and grant instead of one per request. */
const TOUCH_INTERVAL_MS = 3_600_000;

function invalidToken(baseUrl: string, message: string): Problem {
  const challenge = bearerChallenge(baseUrl, { code: 'invalid_token', description: message });
  return new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': challenge } });
}

/**
 * Returns whether a token's grant is in effect: neither revoked nor past the end of a retired grant, its client and store not suspended,
 * its user enabled, its client trusted (platform), its user a member of the store.
 */
export function isInEffect(row: GrantStatus, now: Date): boolean {
  return isStanding(row, now) && suspensionOfGrant(row) === undefined;
}

/** Returns the error of a grant whose client is suspended, or the one store that it is for; undefined for others. */
function suspensionOfGrant({ suspendedReason, scope, reasons: [ofStore = null] }: GrantStatus): Problem | undefined {
  if (suspendedReason !== null) return suspended('app', suspendedReason);
  return ofStore === null || scope === 'user_full_access' ? undefined : suspended('store', ofStore);
}

/** Returns whether the grant is in effect, or would be if its client and store were not suspended. */
function isStanding(row: GrantStatus, now: Date): boolean {
  if (row.revoked || row.disabled || (row.ends !== null && now >= row.ends)) return false;
  switch (row.scope) {
    case 'platform':
      return row.trusted;
    case 'store_full_access':
    case 'store_limited':
      return row.stores.length > 0;
    case 'user_full_access':
      return true;
  }
}

/** Writes what the use of an access token changes: nothing, except for its first use and once an hour. */
async function touch(sql: Sql, hash: Buffer, { grantId, used, isFirstUse }: BearerRow, now: Date): Promise<void> {
  if (isFirstUse) await endPredecessor(sql, hash);
  const unlessSince = new Date(now.getTime() - TOUCH_INTERVAL_MS);
  if (used === null || used <= unlessSince) await touchGrant(sql, { grantId, now, unlessSince });
}

/**
 * Returns the Principal of an access token. Throws a 401 Problem whose text says whether the token is invalid or expired
 * (RFC 6750), and a 403 if its client or its store is suspended.
 */
export type Bearer = (token: string, now: Date) => Promise<Principal>;

/**
 * Concurrent requests share a statement, and there is no cache while the database is available; at the first use of a
 * token, and once per hour and grant, a second statement writes that it was used.
 */
export function createBearer({ sql, config, clock }: Pick<Runtime, 'sql' | 'config' | 'clock'>): Bearer {
  const { baseUrl, database } = config;
  const { homeOutageMs: outageMs } = database;
  const read = createLookup((hashes) =>
    findBearers(
      sql.reads,
      hashes.map((hash) => Buffer.from(hash, 'base64')),
    ),
  );
  const find = withKnownTokens(read, { outageMs, monotonicMs: () => clock.monotonicMs() });
  return async (token, now) => {
    const hash = hashToken(token);
    const row = looksLike('accessToken', token) ? await find(hash.toString('base64')) : undefined;
    if (row === undefined || !isStanding(row, now)) throw invalidToken(baseUrl, INVALID_TOKEN);
    if (now >= row.expires) throw invalidToken(baseUrl, EXPIRED);
    const refusal = suspensionOfGrant(row);
    if (refusal !== undefined) throw refusal;
    // A known token of an outage is not written.
    await touch(sql, hash, row, now).catch((error: unknown) => {
      if (outageMs === 0 || !isUnavailable(error)) throw error;
    });
    const { userId, clientId, publicClientId, grantId, scope, permissions } = row;
    const reasons = suspensionsOf(
      row.stores.map((storeId, at) => ({ storeId, suspendedReason: row.reasons[at] ?? null })),
    );
    const stores = scope === 'platform' ? 'all' : row.stores.filter((id) => !reasons.has(id));
    return { userId, clientId, publicClientId, grantId, scope, permissions, stores, suspended: reasons, owned: [] };
  };
}

/** Tokens that were valid a short time ago, for requests while the home database is not available. */
const TOKENS_MAX = 10_000;

type Find = (hash: string) => Promise<BearerRow | undefined>;

/**
 * Returns a look-up that uses its last result of a token while the home database is not available, for at most `outageMs` after the
 * token was read. Tokens that were read longest ago are forgotten first.
 */
export function withKnownTokens(
  find: Find,
  { outageMs, monotonicMs }: { outageMs: number; monotonicMs: () => number },
): Find {
  if (outageMs === 0) return find;
  const known = new Map<string, { row: BearerRow; readAtMs: number }>();
  return async (hash) => {
    try {
      const row = await find(hash);
      known.delete(hash);
      if (row === undefined) return undefined;
      known.set(hash, { row, readAtMs: monotonicMs() });
      const [oldest] = known.keys();
      if (known.size > TOKENS_MAX && oldest !== undefined) known.delete(oldest);
      return row;
    } catch (error) {
      const last = known.get(hash);
      if (last === undefined || !isUnavailable(error) || monotonicMs() - last.readAtMs > outageMs) throw error;
      return last.row;
    }
  };
}
