/**
 * Deletes pull webhooks without a listener for a day: their listener ended without deleting them. The shard owner then ends their
 * deliveries, as after any deletion.
 */
import type { Changelog } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import type { Purge } from '#db/purges.ts';
import type { WebhookDeps } from '../webhook-access.ts';
import { deleteWebhook, lockWebhook } from '../webhook-sql.ts';
import { recordUnattended, withCurrentKeys } from '../webhook.ts';
import { lastListened, listUnattended } from './listeners-sql.ts';

export type UnattendedDeps = {
  sql: Sql;
  changelog: Changelog;
  announce: WebhookDeps['announce'];
  unattendedHours: number;
};

const HOUR_MS = 3_600_000;

const remove = (
  { sql, changelog, announce }: UnattendedDeps,
  { shard, id }: { shard: number; id: number },
  { before, now }: { before: Date; now: Date },
): Promise<boolean> =>
  transaction(sql, async (tx) => {
    const key = { shard, id, stores: null, app: null };
    const row = await lockWebhook(tx, key);
    // The webhook may have been deleted, have a listener again, or belong to a suspended app, before it was locked.
    const listenedAt = row && (await lastListened(tx, key));
    if (row === undefined || row.inactiveReason === 'suspended' || listenedAt === undefined || listenedAt >= before)
      return false;
    await deleteWebhook(tx, key);
    await recordUnattended(tx, changelog, withCurrentKeys(row, now), now);
    await announce(tx, shard, [id]);
    return true;
  });

export function createUnattendedPurge(deps: UnattendedDeps): Purge {
  const keptMs = deps.unattendedHours * HOUR_MS;
  return {
    name: 'forsaken_webhooks',
    keptMs,
    purge: async (limit, now) => {
      const before = new Date(now.getTime() - keptMs);
      let removed = 0;
      for (const webhook of await listUnattended(deps.sql, before, limit)) {
        if (await remove(deps, webhook, { before, now })) removed += 1;
      }
      return removed;
    },
  };
}
