/**
 * What was held for a listener and will be fetched by none, because the webhook was deleted or switched off: no lane has it, so
 * the owner of its shard ends it, whenever it looks for work.
 */
import type { Sql } from '#database/pool.ts';
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import { endUnfetched } from './queries.ts';

/** A statement takes some 50 ms: others of the shard wait for no more than one, and the next look goes on. */
const AT_ONCE = 2_000;

export const createEndUnfetched =
  ({ sql, clock, log }: { sql: Sql; clock: Clock; log: Log }) =>
  async (shard: number, webhookId: number): Promise<void> => {
    try {
      await endUnfetched(sql, { shard, webhookId }, AT_ONCE, clock.now());
    } catch (error) {
      // It keeps nobody from work: the next look tries again.
      log.warn({ webhook: webhookId, reason: String(error) }, 'what nobody will fetch could not be ended');
    }
  };
