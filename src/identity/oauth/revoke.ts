/** The state of tokens: POST /introspect (RFC 7662), and POST /revoke (RFC 7009), by which a client revokes one of its tokens. */
import { type Action, type Origin, originOf, recordAuditEntry } from '#identity/accounts/audit.ts';
import { type Sql, transaction } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import {
  type AuthenticateClient,
  type Form,
  readForm,
  requireOneMethod,
  answeringRefusals,
} from './protocol-requests.ts';
import { grantChanges, type RevocationEffects } from './grants.ts';
import { tokenErrors, TokenRefusal } from './oauth-errors.ts';
import { findAuthenticatedClient, endPredecessor } from './grants-sql.ts';
import {
  deleteAccessToken,
  findIntrospected,
  grantOfRefreshToken,
  type IntrospectedRow,
  revokeGrant,
} from './oauth-sql.ts';
import { type Bearer, hashToken, isInEffect, looksLike } from './oauth-tokens.ts';
import type { Actor } from '#changelog/changelog.ts';
import { bearerTokenOf } from '#http/caller.ts';
import { requirePlatform } from '#core/principal.ts';
import { scopeText } from './scope.ts';

/**
 * A refresh token, even a rotated one, revokes its grant with all tokens (RFC 7009 §2.1); an access token revokes only
 * itself. For an unknown token or another client's token nothing happens, and the response is the same (§2.2).
 */
export function createRevoke(
  { sql }: Pick<Runtime, 'sql'>,
  { authenticate, effects }: { authenticate: AuthenticateClient; effects: RevocationEffects },
): RawHandler {
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
      if (grantId !== undefined) await endGrant(sql, effects, { grantId, action: 'grant_revoked', actor, ...by });
    }
    // The body has no meaning (RFC 7009 §2.2), but some clients require JSON.
    return jsonAnswer(200, {});
  });
}

type Reason = Extract<Action, 'grant_revoked' | 'code_reused' | 'refresh_token_reused'>;

/**
 * Revokes a grant with all its tokens and records it in the audit and the changelog, in one transaction. `action` is null if the
 * audit has recorded the end in advance. Does nothing if the
 * grant has already ended, so that its end is recorded once.
 */
export function endGrant(
  sql: Sql,
  { changelog, accessChanged }: RevocationEffects,
  end: { grantId: number; action: Reason | null; actor: Actor; origin: Origin | null; now: Date },
): Promise<void> {
  return transaction(sql, async (tx) => {
    const { grantId, action, actor, origin, now } = end;
    const ended = await revokeGrant(tx, grantId, now);
    if (ended === undefined) return;
    const { client, userId, storeId } = ended;
    if (userId !== null) await accessChanged(tx, { client, userId, storeId }, now);
    if (action !== null)
      await recordAuditEntry(tx, { action, client, userId, storeId, origin, detail: { grant: grantId }, now });
    await changelog.record(tx, grantChanges([ended], { actor, action: 'revoked' }), now);
  });
}

/** Revokes one access token of the client and records it in the audit. Does nothing if the client has no such token. */
function endAccessToken(sql: Sql, end: { hash: Buffer; client: number; origin: Origin; now: Date }): Promise<void> {
  return transaction(sql, async (tx) => {
    const { hash, client, origin, now } = end;
    const ended = await deleteAccessToken(tx, hash, client);
    if (ended === undefined) return;
    const { grantId, ...subject } = ended;
    await recordAuditEntry(tx, { action: 'access_token_revoked', ...subject, origin, detail: { grant: grantId }, now });
  });
}

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
    const hash = hashToken(token);
    const row = hasKnownPrefix ? await findIntrospected(sql.reads, hash) : undefined;
    const active = isActive(row, visibility, request.now);
    // A resource server introspects the token of a request: the client uses it.
    if (active && row.isFirstUse && visibility === 'all') await endPredecessor(sql, hash);
    return jsonAnswer(200, active ? describe(row, config) : { active: false });
  });
}
