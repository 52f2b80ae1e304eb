/** POST /revoke (RFC 7009): a client gives up a token of its own. */
import { originOf } from '#accounts/audit/audit.ts';
import type { Sql } from '#database/pool.ts';
import type { DoorHandler } from '#http/route.ts';
import type { AuthenticateClient } from '../client-auth.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from '../errors.ts';
import { readForm } from '../form.ts';
import { hashToken, looksLike } from '../tokens.ts';
import { endGrant } from './end-grant.ts';
import { deleteAccessToken, grantOfRefreshToken } from './queries.ts';

/**
 * A refresh token ends its grant with all its tokens (RFC 7009 §2.1), also when it was rotated; an access token ends
 * alone. What is unknown, or another client's, is answered like what was revoked (§2.2), and nothing happens.
 */
export const createRevoke = ({ sql, authenticate }: { sql: Sql; authenticate: AuthenticateClient }): DoorHandler =>
  answeringRefusals(async (request) => {
    const form = readForm(request);
    const client = await authenticate(request, form);
    const { token } = form;
    if (token === undefined) throw new TokenRefusal(tokenErrors.noToken);
    if (looksLike('accessToken', token)) await deleteAccessToken(sql, hashToken(token), client.id);
    if (looksLike('refreshToken', token)) {
      const grantId = await grantOfRefreshToken(sql, hashToken(token), client.id);
      const end = { action: 'grant_revoked', origin: originOf(request), now: request.now } as const;
      if (grantId !== undefined) await endGrant(sql, { grantId, ...end });
    }
    return { status: 200, headers: { 'Cache-Control': 'no-store' }, body: '' };
  });
