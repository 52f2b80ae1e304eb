/**
 * grant_type=refresh_token (RFC 6749 §6). The same refresh token comes back and its idle year begins again: clients of
 * this API keep the first one for ever. With the client's authentication that makes two statements.
 */
import { tokenErrors, TokenRefusal } from '../errors.ts';
import { mintPair, tokenAnswer } from '../issue.ts';
import { scopeEntries } from '../scope.ts';
import { looksLike } from '../tokens.ts';
import type { Grant } from './exchange.ts';
import { refreshGrant } from './queries.ts';

export const refreshAccess: Grant = async ({ sql, client, form, lifetimes, now }) => {
  if (form.refresh_token === undefined) throw new TokenRefusal(tokenErrors.noRefreshToken);
  if (!looksLike('refreshToken', form.refresh_token)) throw new TokenRefusal(tokenErrors.invalidRefreshToken);
  const { values, stored } = mintPair(now, lifetimes, form.refresh_token);
  const scope = scopeEntries(form.scope ?? '');
  // A NUL cannot be in a scope that was granted, and PostgreSQL would refuse the text that holds it.
  if (scope.some((entry) => entry.includes('\0'))) throw new TokenRefusal(tokenErrors.invalidScope);
  const granted = await refreshGrant(sql, { client: client.id, tokens: stored, scope, now });
  if (granted === undefined) throw new TokenRefusal(tokenErrors.invalidRefreshToken);
  if (!granted.issued) throw new TokenRefusal(tokenErrors.invalidScope);
  return tokenAnswer(values, granted, lifetimes);
};
