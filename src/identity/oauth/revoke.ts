/** POST /revoke (RFC 7009): a client revokes one of its tokens. */
import { originOf, recordAuditEntry, type Action, type Origin } from '#identity/accounts/audit.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { readForm, type AuthenticateClient } from './protocol-requests.ts';
import { grantChanges, type RevocationEffects } from './grant-changes.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './oauth-errors.ts';
import { deleteAccessToken, findAuthenticatedClient, grantOfRefreshToken, revokeGrant } from './oauth-sql.ts';
import { hashToken, looksLike } from './oauth-tokens.ts';
import type { Actor } from '#changelog/changelog.ts';

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

/** The audited reason for the end of a grant. */
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
