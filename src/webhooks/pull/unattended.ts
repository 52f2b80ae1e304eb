/**
 * Held webhooks to which nobody has listened for a day: a listener that ended without removing its own. They go as if somebody had
 * deleted them, and what they hold is ended by the owner of their shard.
 */
import type { Changelog } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import type { WebhookDeps } from '../access.ts';
import { deleteWebhook, lockWebhook } from '../webhook-sql.ts';
import { recordForsaken } from '../audit.ts';
import { settled } from '../rotation/rotation.ts';
import { lastListened, listForsaken } from './pull-sql.ts';

export type ForsakenDeps = {
  sql: Sql;
  changelog: Changelog;
  announce: WebhookDeps['announce'];
  unheardHours: number;
};

const HOUR_MS = 3_600_000;

const remove = (
  { sql, changelog, announce }: ForsakenDeps,
  { shard, id }: { shard: number; id: number },
  { before, now }: { before: Date; now: Date },
): Promise<boolean> =>
  transaction(sql, async (tx) => {
    const key = { shard, id, stores: null };
    const row = await lockWebhook(tx, key);
    // Somebody may have deleted it, or come back to it, until it was locked.
    const listenedAt = row && (await lastListened(tx, key));
    if (row === undefined || listenedAt === undefined || listenedAt >= before) return false;
    await deleteWebhook(tx, key);
    await recordForsaken(tx, changelog, settled(row, now), now);
    await announce(tx, shard, [id]);
    return true;
  });

export const createForsakenPurge = (deps: ForsakenDeps): Purge => ({
  name: 'forsaken_webhooks',
  purge: async (limit, now) => {
    const before = new Date(now.getTime() - deps.unheardHours * HOUR_MS);
    let removed = 0;
    for (const webhook of await listForsaken(deps.sql, before, limit)) {
      if (await remove(deps, webhook, { before, now })) removed += 1;
    }
    return removed;
  },
});
