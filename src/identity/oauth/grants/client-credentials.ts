/** grant_type=client_credentials (RFC 6749 §4.4): access for the platform, by clients that the operator trusts. */
import { tokenErrors, TokenRefusal } from '../errors.ts';
import { issueAccessToken } from '../issue.ts';
import { findAuthenticatedClient } from '../oauth-sql.ts';
import type { GrantHandler } from './exchange.ts';
import { insertPlatformToken } from './grants-sql.ts';

const SCOPE = 'platform';

export const grantPlatform: GrantHandler = async ({ sql, authenticate, form, lifetimes, now }) => {
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
