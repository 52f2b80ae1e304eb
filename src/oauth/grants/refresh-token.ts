/**
 * grant_type=refresh_token (RFC 6749 §6). For a client whose tokens are stable the same refresh token comes back and its
 * idle year begins again: published clients keep the first one for ever. For one whose tokens rotate a successor comes
 * back, and the old one that is presented later ends the grant, because one of the two who have it stole it (RFC 9700
 * §4.14.2). With the client's authentication that makes two statements.
 */
import { tokenErrors, TokenRefusal } from '../errors.ts';
import { idleUntil, issueAccessToken, tokenAnswer } from '../issue.ts';
import { endGrant } from '../revocation/end-grant.ts';
import { scopeEntries } from '../scope.ts';
import { hashToken, looksLike, successorOf } from '../tokens.ts';
import type { Exchange, Grant } from './exchange.ts';
import { refreshGrant, type Refreshed } from './queries.ts';

/** For so long a token that was rotated gives its successor again: to a client that lost the answer, or asked in parallel. */
const RETRY_SECONDS = 10;
const DAY_MS = 86_400_000;

const readToken = ({ form }: Exchange): string => {
  if (form.refresh_token === undefined) throw new TokenRefusal(tokenErrors.noRefreshToken);
  if (!looksLike('refreshToken', form.refresh_token)) throw new TokenRefusal(tokenErrors.invalidRefreshToken);
  return form.refresh_token;
};

const readScope = ({ form }: Exchange): string[] => {
  const scope = scopeEntries(form.scope ?? '');
  // A NUL cannot be in a scope that was granted, and PostgreSQL would refuse the text that holds it.
  if (scope.some((entry) => entry.includes('\0'))) throw new TokenRefusal(tokenErrors.invalidScope);
  return scope;
};

const requireIssued = async ({ outcome, grantId }: Refreshed, { sql, origin, now }: Exchange): Promise<void> => {
  switch (outcome) {
    case 'issued':
      return;
    case 'reused':
      await endGrant(sql, { grantId, action: 'refresh_token_reused', origin, now });
      throw new TokenRefusal(tokenErrors.invalidRefreshToken);
    case 'ended':
      throw new TokenRefusal(tokenErrors.invalidRefreshToken);
    case 'out of scope':
      throw new TokenRefusal(tokenErrors.invalidScope);
  }
};

export const refreshAccess: Grant = async (exchange) => {
  const { sql, client, lifetimes, rotation, now } = exchange;
  const presented = readToken(exchange);
  const scope = readScope(exchange);
  const access = issueAccessToken(now, lifetimes);
  const successor = successorOf(rotation.successorKey, presented);
  const idle = idleUntil(now, lifetimes);
  const refreshed = await refreshGrant(sql, {
    client: client.id,
    rotates: client.rotatesRefreshTokens,
    hash: hashToken(presented),
    scope,
    access: access.stored,
    successor: { hash: successor.hash, expires: idle },
    idleUntil: idle,
    rotatedUntil: new Date(now.getTime() + rotation.rotatedTokenKeptDays * DAY_MS),
    reusedSince: new Date(now.getTime() - RETRY_SECONDS * 1_000),
    now,
  });
  if (refreshed === undefined) throw new TokenRefusal(tokenErrors.invalidRefreshToken);
  await requireIssued(refreshed, exchange);
  const refresh = refreshed.rotates ? successor.value : presented;
  return tokenAnswer({ access: access.value, refresh }, refreshed, lifetimes);
};
