/** Tokens made and answered: the one shape that every grant and the demo give out. */
import type { Queryable } from '#database/pool.ts';
import { insertStoreGrant, type Granted, type TokenPair } from './grants/queries.ts';
import { scopeText } from './scope.ts';
import { hashToken, mintToken } from './tokens.ts';

const DAY_MS = 86_400_000;

export type Lifetimes = { accessTokenLifetimeSeconds: number; refreshTokenIdleDays: number };

/** The token response of RFC 6749 §5.1; a grant without a refresh token has none. */
export type TokenAnswer = {
  access_token: string;
  refresh_token?: string;
  /** Seconds. */
  expires_in: number;
  token_type: 'Bearer';
  scope: string;
};

/** A new access token beside a refresh token: the one presented, whose time begins again, or a new one. */
export const mintPair = (
  now: Date,
  lifetimes: Lifetimes,
  presented?: string,
): { values: { access: string; refresh: string }; stored: TokenPair } => {
  const access = mintToken('accessToken');
  const refresh =
    presented === undefined ? mintToken('refreshToken') : { value: presented, hash: hashToken(presented) };
  const accessExpires = new Date(now.getTime() + lifetimes.accessTokenLifetimeSeconds * 1_000);
  const refreshExpires = new Date(now.getTime() + lifetimes.refreshTokenIdleDays * DAY_MS);
  return {
    values: { access: access.value, refresh: refresh.value },
    stored: {
      access: { hash: access.hash, expires: accessExpires },
      refresh: { hash: refresh.hash, expires: refreshExpires },
    },
  };
};

export const tokenAnswer = (
  values: { access: string; refresh: string },
  granted: Granted,
  lifetimes: Lifetimes,
): TokenAnswer & { refresh_token: string } => ({
  access_token: values.access,
  refresh_token: values.refresh,
  expires_in: lifetimes.accessTokenLifetimeSeconds,
  token_type: 'Bearer',
  scope: scopeText(granted.scope, granted.storeId),
});

/**
 * Gives a client access to a store in the name of one of its members, as the consent page and a code would: for the demo
 * and for tests. `clientId` is the public one; whether the user is a member is asked at each use, like everywhere.
 */
export const grantStoreAccess = async (
  sql: Queryable,
  grant: { clientId: string; userId: number; storeId: number; now: Date } & Lifetimes,
): Promise<TokenAnswer & { refresh_token: string }> => {
  const { clientId, userId, storeId, now } = grant;
  const { values, stored } = mintPair(now, grant);
  const isGranted = await insertStoreGrant(sql, { clientId, userId, storeId, tokens: stored, now });
  if (!isGranted) throw new RangeError(`There is no client ${clientId}`);
  return tokenAnswer(values, { scope: 'store_full_access', storeId }, grant);
};
