/** How a grant, or one token of it, ends while its client and its user stay. */
import { recordAuditEntry, type Action, type Origin } from '#identity/accounts/audit/audit.ts';
import type { Actor } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { grantChanges, type AfterGrants } from './grant-changes.ts';
import { deleteAccessToken, revokeGrant } from './revoke-sql.ts';

/** Why a grant ends; each implies the first. */
type Reason = Extract<Action, 'grant_revoked' | 'code_reused' | 'refresh_token_reused'>;

/**
 * Revokes a grant, and with it everything that hangs on it, and writes down who did it and why: both or neither. One that
 * has ended before is left alone, so that its end stands in the audit and in the changelog once.
 */
export const endGrant = (
  { sql, changelog, stopWebhooks }: AfterGrants & { sql: Sql },
  end: { grantId: number; action: Reason; actor: Actor; origin: Origin; now: Date },
): Promise<void> =>
  transaction(sql, async (tx) => {
    const { grantId, action, actor, origin, now } = end;
    const ended = await revokeGrant(tx, grantId, now);
    if (ended === undefined) return;
    const { client, userId, storeId } = ended;
    if (userId !== null) await stopWebhooks(tx, { client, userId, storeId }, now);
    await recordAuditEntry(tx, { action, client, userId, storeId, origin, detail: { grant: grantId }, now });
    await changelog.record(tx, grantChanges([ended], { actor, action: 'revoked' }), now);
  });

/** Ends one access token of the client, and writes it down; does nothing where the client has no such token. */
export const endAccessToken = (
  sql: Sql,
  end: { hash: Buffer; client: number; origin: Origin; now: Date },
): Promise<void> =>
  transaction(sql, async (tx) => {
    const { hash, client, origin, now } = end;
    const ended = await deleteAccessToken(tx, hash, client);
    if (ended === undefined) return;
    const { grantId, ...whose } = ended;
    await recordAuditEntry(tx, { action: 'access_token_revoked', ...whose, origin, detail: { grant: grantId }, now });
  });
