/** POST /introspect (RFC 7662): the current state of a token. */
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import { bearerTokenOf } from '#http/caller.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { requirePlatform } from '#core/principal.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { hashToken, isInEffect, looksLike, type Bearer } from './oauth-tokens.ts';
import { readForm, requireOneMethod, type AuthenticateClient, type Form } from './protocol-requests.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './oauth-errors.ts';
import { findAuthenticatedClient, findIntrospected, type IntrospectedRow } from './oauth-sql.ts';
import { scopeText } from './scope.ts';

type Deps = { authenticate: AuthenticateClient; bearer: Bearer };

/** The tokens that the caller may introspect: those of one client, by its internal id, or all. */
type Visibility = number | 'all';

/** Returns the caller's visibility. Rejects a public client, because its client_id is no authentication (RFC 7662 §2.1). */
async function visibilityOf(sql: Sql, deps: Deps, request: RawRequest, form: Form): Promise<Visibility> {
  const { authenticate, bearer } = deps;
  const token = bearerTokenOf(request.headers['authorization']);
  if (token !== undefined) {
    requireOneMethod(request.headers['authorization'], form);
    requirePlatform(await bearer(token, request.now));
    return 'all';
  }
  const client = await authenticate(request, form, (claim) => findAuthenticatedClient(sql, claim));
  if (client.isPublic) throw new TokenRefusal(tokenErrors.invalidClient);
  return client.id;
}

const isActive = (row: IntrospectedRow | undefined, visibility: Visibility, now: Date): row is IntrospectedRow =>
  row !== undefined &&
  (visibility === 'all' || row.clientId === visibility) &&
  isInEffect(row, now) &&
  now < row.expires;

/**
 * Returns the members of RFC 7662 §2.2. The time of issue is not stored: an access token has a constant lifetime, but the expiry of a
 * refresh token moves, so it has no `iat`. It has no `token_type` either, so that a resource server does not accept it as an access
 * token.
 */
function describe(row: IntrospectedRow, { authUrl, oauth }: Runtime['config']) {
  const exp = Math.floor(row.expires.getTime() / 1_000);
  return {
    active: true,
    scope: scopeText(row, row.storeId),
    client_id: row.publicClientId,
    ...(row.userId === null ? {} : { sub: String(row.userId) }),
    exp,
    ...(row.isAccessToken ? { iat: exp - oauth.accessTokenLifetimeSeconds, token_type: 'Bearer' } : {}),
    iss: authUrl,
  };
}

/** Returns only `active: false` for a token that is not active or not visible to the caller (RFC 7662 §2.2). */
export function createIntrospect({ sql, config }: Runtime, deps: Deps): RawHandler {
  return answeringRefusals(async (request) => {
    const form = readForm(request);
    const visibility = await visibilityOf(sql, deps, request, form);
    const { token } = form;
    if (token === undefined) throw new TokenRefusal(tokenErrors.noToken);
    const hasKnownPrefix = looksLike('accessToken', token) || looksLike('refreshToken', token);
    const row = hasKnownPrefix ? await findIntrospected(sql.reads, hashToken(token)) : undefined;
    return jsonAnswer(200, isActive(row, visibility, request.now) ? describe(row, config) : { active: false });
  });
}
