/** The bearer check (RFC 6750): a token → who it stands for, asked anew at every request. */
import type { Sql } from '#db/pool.ts';
import type { Principal } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';
import { findBearer, touchGrant, type BearerRow, type Standing } from './oauth-sql.ts';
import { hashToken, looksLike } from './tokens.ts';

const INVALID = 'The access token provided is invalid';
const EXPIRED = 'The access token provided has expired';

/** "Last used" is as exact as that, so that it costs a statement an hour and not one a request. */
const USED_EVERY_MS = 3_600_000;

const refused = (message: string): Problem =>
  new Problem(
    401,
    { code: 'invalid_token', message },
    {
      headers: {
        'WWW-Authenticate': `Bearer realm="halcyon", error="invalid_token", error_description="${message}"`,
      },
    },
  );

/** Whether what a token hangs on still stands: the grant, its user, the operator's trust, the membership in the store. */
export const stands = (row: Standing): boolean => {
  if (row.revoked || row.disabled) return false;
  switch (row.scope) {
    case 'platform':
      return row.trusted;
    case 'store_full_access':
      return row.stores.length > 0;
    case 'user_full_access':
      return true;
  }
};

const touch = async (sql: Sql, { grantId, used }: BearerRow, now: Date): Promise<void> => {
  const unlessSince = new Date(now.getTime() - USED_EVERY_MS);
  if (used === null || used <= unlessSince) await touchGrant(sql, { grantId, now, unlessSince });
};

/** An access token → who it stands for. Throws a 401 Problem with the two texts of RFC 6750 that clients look for. */
export type Bearer = (token: string, now: Date) => Promise<Principal>;

/** One statement a request and no cache; once an hour and grant a second one, which notes that it is in use. */
export const createBearer =
  ({ sql }: { sql: Sql }): Bearer =>
  async (token, now) => {
    const row = looksLike('accessToken', token) ? await findBearer(sql, hashToken(token)) : undefined;
    if (row === undefined || !stands(row)) throw refused(INVALID);
    if (now >= row.expires) throw refused(EXPIRED);
    await touch(sql, row, now);
    const { userId, clientId, publicClientId, grantId, scope } = row;
    const stores = scope === 'platform' ? 'all' : row.stores;
    return { userId, clientId, publicClientId, grantId, scope, stores, owned: [] };
  };
