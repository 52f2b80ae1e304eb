/** Authenticates requests by bearer token (RFC 6750); each is looked up after its request arrived. */
import { bearerChallenge, INVALID_TOKEN } from '#http/challenge.ts';
import { createLookup } from '#db/connections.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Sql } from '#db/pool.ts';
import type { Principal } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { findBearers, touchGrant, type BearerRow, type GrantStatus } from './oauth-sql.ts';
import { hashToken, looksLike } from './oauth-tokens.ts';

const EXPIRED = 'The access token provided has expired';

/** Resolution of "last used": one update per hour and grant instead of one per request. */
const TOUCH_INTERVAL_MS = 3_600_000;

function invalidToken(baseUrl: string, message: string): Problem {
  const challenge = bearerChallenge(baseUrl, { code: 'invalid_token', description: message });
  return new Problem(401, { code: 'invalid_token', message }, { headers: { 'WWW-Authenticate': challenge } });
}

/**
 * Returns whether a token's grant is in effect: neither revoked nor past the end of a retired grant, its user enabled, its client
 * trusted (platform), its user a member of the store.
 */
export function isInEffect(row: GrantStatus, now: Date): boolean {
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

async function touch(sql: Sql, { grantId, used }: BearerRow, now: Date): Promise<void> {
  const unlessSince = new Date(now.getTime() - TOUCH_INTERVAL_MS);
  if (used === null || used <= unlessSince) await touchGrant(sql, { grantId, now, unlessSince });
}

/**
 * Returns the Principal of an access token. Throws a 401 Problem whose text says whether the token is invalid or expired
 * (RFC 6750).
 */
export type Bearer = (token: string, now: Date) => Promise<Principal>;

/**
 * Concurrent requests share a statement, and there is no cache while the database is available; once per hour and grant a second
 * statement updates "last used".
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
    const row = looksLike('accessToken', token) ? await find(hashToken(token).toString('base64')) : undefined;
    if (row === undefined || !isInEffect(row, now)) throw invalidToken(baseUrl, INVALID_TOKEN);
    if (now >= row.expires) throw invalidToken(baseUrl, EXPIRED);
    // A known token of an outage is not written.
    await touch(sql, row, now).catch((error: unknown) => {
      if (outageMs === 0 || !isUnavailable(error)) throw error;
    });
    const { userId, clientId, publicClientId, grantId, scope, permissions } = row;
    const stores = scope === 'platform' ? 'all' : row.stores;
    return { userId, clientId, publicClientId, grantId, scope, permissions, stores, owned: [] };
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
