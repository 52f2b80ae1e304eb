/** The one way in which a grant ends while its client and its user stay. */
import { recordDeed, type Action, type Origin } from '#accounts/audit/audit.ts';
import { transaction, type Sql } from '#database/pool.ts';
import { revokeGrant } from './queries.ts';

/** Why a grant ends; each implies the first. */
type Reason = Extract<Action, 'grant_revoked' | 'code_reused' | 'refresh_token_reused'>;

/**
 * Revokes a grant, and with it everything that hangs on it, and writes down who did it and why: both or neither. One that
 * has ended before is left alone, so that its end stands in the audit once.
 */
export const endGrant = (
  sql: Sql,
  end: { grantId: number; action: Reason; origin: Origin; now: Date },
): Promise<void> =>
  transaction(sql, async (tx) => {
    const { grantId, action, origin, now } = end;
    const ended = await revokeGrant(tx, grantId, now);
    if (ended !== undefined) await recordDeed(tx, { action, ...ended, origin, detail: { grant: grantId }, now });
  });
