/** Revokes a grant or one of its access tokens. */
import { recordAuditEntry, type Action, type Origin } from '#identity/accounts/audit/audit.ts';
import type { Actor } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { grantChanges, type RevocationEffects } from './grant-changes.ts';
import { deleteAccessToken, revokeGrant } from './revoke-sql.ts';

/** The audited reason for the end of a grant. */
type Reason = Extract<Action, 'grant_revoked' | 'code_reused' | 'refresh_token_reused'>;

/**
 * Revokes a grant with all its tokens and records it in the audit and the changelog, in one transaction. `action` is null if the
 * audit has recorded the end in advance. Does nothing if the
 * grant has already ended, so that its end is recorded once.
 */
export function endGrant(
  { sql, changelog, accessChanged }: RevocationEffects & { sql: Sql },
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
export function endAccessToken(
  sql: Sql,
  end: { hash: Buffer; client: number; origin: Origin; now: Date },
): Promise<void> {
  return transaction(sql, async (tx) => {
    const { hash, client, origin, now } = end;
    const ended = await deleteAccessToken(tx, hash, client);
    if (ended === undefined) return;
    const { grantId, ...subject } = ended;
    await recordAuditEntry(tx, { action: 'access_token_revoked', ...subject, origin, detail: { grant: grantId }, now });
  });
}
