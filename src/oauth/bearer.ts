/** The bearer check (RFC 6750): a token → who it stands for, asked anew at every request. */
import type { Sql } from '#database/pool.ts';
import type { Principal } from '#kernel/principal.ts';
import { Problem } from '#kernel/problem.ts';
import { findBearer, type BearerRow } from './queries.ts';
import { hashToken, looksLike } from './tokens.ts';

const INVALID = 'The access token provided is invalid';
const EXPIRED = 'The access token provided has expired';

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

/** Whether what the token hangs on still stands: the grant, the operator's trust, the membership in the store. */
const stands = (row: BearerRow): boolean => {
  if (row.revoked) return false;
  switch (row.scope) {
    case 'platform':
      return row.trusted;
    case 'store_full_access':
      return row.stores.length > 0;
    case 'user_full_access':
      return true;
  }
};

/** One statement a request and no cache. Throws a 401 Problem with the two texts of RFC 6750 that clients look for. */
export const createBearer =
  ({ sql }: { sql: Sql }) =>
  async (token: string, now: Date): Promise<Principal> => {
    const row = looksLike('accessToken', token) ? await findBearer(sql, hashToken(token)) : undefined;
    if (row === undefined || !stands(row)) throw refused(INVALID);
    if (now >= row.expires) throw refused(EXPIRED);
    const { userId, clientId, grantId, scope } = row;
    return { userId, clientId, grantId, scope, stores: scope === 'platform' ? 'all' : row.stores };
  };
