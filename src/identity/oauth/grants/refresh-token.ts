/**
 * grant_type=refresh_token (RFC 6749 §6), in one statement that also authenticates the client. A client with stable tokens
 * gets the same refresh token back, with its idle period restarted. A client with rotating tokens gets a successor, and
 * later reuse of the old token revokes the grant, because the token must have been stolen (RFC 9700 §4.14.2).
 */
import { HALCYON } from '#changelog/changelog.ts';
import { tokenErrors, TokenRefusal } from '../errors.ts';
import { idleUntil, issueAccessToken, maxSecondsOf, tokenAnswer } from '../issue.ts';
import { endGrant } from '../end-grant.ts';
import { narrowedTo, scopeEntries } from '../scope.ts';
import { hashToken, looksLike, successorsOf } from '../tokens.ts';
import type { Exchange, GrantHandler } from './exchange.ts';
import { refreshGrant, type Refreshed } from './grants-sql.ts';

/**
 * The period in which a rotated token returns its successor again, for a client that lost the response or refreshed
 * concurrently.
 */
const RETRY_SECONDS = 10;
const DAY_MS = 86_400_000;

type Refused = Exclude<Refreshed, { outcome: 'issued' }>;

async function refuseRefresh(refused: Refused, exchange: Exchange): Promise<never> {
  switch (refused.outcome) {
    case 'reused': {
      const { origin, now } = exchange;
      const { grantId } = refused;
      await endGrant(exchange, { grantId, action: 'refresh_token_reused', actor: HALCYON, origin, now });
      throw new TokenRefusal(tokenErrors.invalidRefreshToken);
    }
    case 'unknown':
    case 'ended':
      throw new TokenRefusal(tokenErrors.invalidRefreshToken);
    case 'out of scope':
      throw new TokenRefusal(tokenErrors.invalidScope);
  }
}

export const refreshAccess: GrantHandler = async (exchange) => {
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
  const stored = [successor, ...others].find(({ hash }) => hash.equals(refreshed.successor)) ?? successor;
  const refresh = refreshed.rotates ? stored.value : presented;
  const limited = narrowed !== null && ({ scope: 'store_limited', permissions: narrowed } as const);
  return tokenAnswer({ access: access.value, refresh }, { ...refreshed, ...limited }, lifetimes);
};
