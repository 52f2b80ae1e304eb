/** POST /introspect (RFC 7662): what a token is worth at this moment. */
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import { bearerTokenOf } from '#http/bearer-token.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { requirePlatform } from '#core/principal.ts';
import { stands, type Bearer } from './bearer.ts';
import type { AuthenticateClient } from './client-auth.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './errors.ts';
import { readForm, type Form } from './form.ts';
import { findIntrospected, findAuthenticatedClient, type IntrospectedRow } from './oauth-sql.ts';
import { scopeText } from './scope.ts';
import { hashToken, looksLike } from './tokens.ts';

type Deps = { sql: Sql; authenticate: AuthenticateClient; bearer: Bearer; issuer: string };

/** Whose tokens may be seen: one client's, by its internal id. */
type Sight = number | 'all';

/** A public client proves nothing by its client_id, which anybody knows, so it may not ask (RFC 7662 §2.1). */
const sightOf = async ({ sql, authenticate, bearer }: Deps, request: RawRequest, form: Form): Promise<Sight> => {
  const token = bearerTokenOf(request.headers['authorization']);
  if (token !== undefined) {
    if (form.client_secret !== undefined) throw new TokenRefusal(tokenErrors.twoSecrets);
    requirePlatform(await bearer(token, request.now));
    return 'all';
  }
  const client = await authenticate(request, form, (claim) => findAuthenticatedClient(sql, claim));
  if (client.isPublic) throw new TokenRefusal(tokenErrors.invalidClient);
  return client.id;
};

const isActive = (row: IntrospectedRow | undefined, sight: Sight, now: Date): row is IntrospectedRow =>
  row !== undefined && (sight === 'all' || row.clientId === sight) && stands(row) && now < row.expires;

/**
 * The members of RFC 7662 §2.2. There is no `iat`: when a token was made is not stored. A refresh token has no
 * `token_type`, so that nobody who asks takes it for what may be presented to an API.
 */
const describe = (row: IntrospectedRow, issuer: string) => ({
  active: true,
  scope: scopeText(row.scope, row.storeId),
  client_id: row.publicClientId,
  ...(row.userId === null ? {} : { sub: String(row.userId) }),
  exp: Math.floor(row.expires.getTime() / 1_000),
  ...(row.isAccessToken ? { token_type: 'Bearer' } : {}),
  iss: issuer,
});

/** Of what is not active, or not the caller's to see, nothing is said but that (RFC 7662 §2.2). */
export const createIntrospect = (deps: Deps): RawHandler =>
  answeringRefusals(async (request) => {
    const form = readForm(request);
    const sight = await sightOf(deps, request, form);
    const { token } = form;
    if (token === undefined) throw new TokenRefusal(tokenErrors.noToken);
    const isOurs = looksLike('accessToken', token) || looksLike('refreshToken', token);
    const row = isOurs ? await findIntrospected(deps.sql, hashToken(token)) : undefined;
    return jsonAnswer(200, isActive(row, sight, request.now) ? describe(row, deps.issuer) : { active: false });
  });
