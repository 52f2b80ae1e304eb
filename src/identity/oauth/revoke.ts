/** POST /revoke (RFC 7009): a client revokes one of its tokens. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler } from '#http/route.ts';
import type { AuthenticateClient } from './client-auth.ts';
import type { RevocationEffects } from './grant-changes.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './errors.ts';
import { readForm } from './form.ts';
import { findAuthenticatedClient } from './oauth-sql.ts';
import { hashToken, looksLike } from './tokens.ts';
import { endAccessToken, endGrant } from './end-grant.ts';
import { grantOfRefreshToken } from './revoke-sql.ts';

/**
 * A refresh token, even a rotated one, revokes its grant with all tokens (RFC 7009 §2.1); an access token revokes only
 * itself. For an unknown token or another client's token nothing happens, and the response is the same (§2.2).
 */
export function createRevoke(deps: RevocationEffects & { sql: Sql; authenticate: AuthenticateClient }): RawHandler {
  const { sql, authenticate } = deps;
  return answeringRefusals(async (request) => {
    const form = readForm(request);
    const client = await authenticate(request, form, (claim) => findAuthenticatedClient(sql, claim));
    const { token } = form;
    if (token === undefined) throw new TokenRefusal(tokenErrors.noToken);
    const hash = hashToken(token);
    const by = { origin: originOf(request), now: request.now };
    if (looksLike('accessToken', token)) await endAccessToken(sql, { hash, client: client.id, ...by });
    if (looksLike('refreshToken', token)) {
      const grantId = await grantOfRefreshToken(sql, hash, client.id);
      // The app acts for itself and not for the user, who need not be present.
      const actor = { kind: 'app', user: null, client: client.clientId } as const;
      if (grantId !== undefined) await endGrant(deps, { grantId, action: 'grant_revoked', actor, ...by });
    }
    // The body has no meaning (RFC 7009 §2.2), but some clients require JSON.
    return jsonAnswer(200, {});
  });
}
