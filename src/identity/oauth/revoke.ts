/** POST /revoke (RFC 7009): a client gives up a token of its own. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler } from '#http/route.ts';
import type { AuthenticateClient } from './client-auth.ts';
import type { AfterGrants } from './grant-changes.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './errors.ts';
import { readForm } from './form.ts';
import { findAuthenticatedClient } from './oauth-sql.ts';
import { hashToken, looksLike } from './tokens.ts';
import { endAccessToken, endGrant } from './end-grant.ts';
import { grantOfRefreshToken } from './revoke-sql.ts';

/**
 * A refresh token ends its grant with all its tokens (RFC 7009 §2.1), also when it was rotated; an access token ends
 * alone. What is unknown, or another client's, is answered like what was revoked (§2.2), and nothing happens.
 */
export const createRevoke = (deps: AfterGrants & { sql: Sql; authenticate: AuthenticateClient }): RawHandler => {
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
      // The app itself gives it up, and not for the person who let it in: they need not be there.
      const actor = { kind: 'app', user: null, client: client.clientId } as const;
      if (grantId !== undefined) await endGrant(deps, { grantId, action: 'grant_revoked', actor, ...by });
    }
    // The body means nothing (RFC 7009 §2.2), but some clients insist on JSON.
    return jsonAnswer(200, {});
  });
};
