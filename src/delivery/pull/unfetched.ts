/**
 * What was held for a listener and will be fetched by none, because the webhook was deleted or switched off, or it was held for too
 * long: no lane has it, so the owner of its shard ends it, whenever it looks for work.
 */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import type { Log } from '#core/log.ts';
import { endUnfetched, type PullWebhook } from './pull-sql.ts';

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  owns: (shard: number) => boolean;
  /** What is held keeps the partitions of its day, and so those of all stores, from being dropped. */
  settings: { unfetchedDays: number };
};

/** A statement takes some 50 ms. */
const BATCH_ROWS = 2_000;

/** One statement at a time, so that all others have the connections; and of many webhooks each has its turn. */
export class Unfetched {
  readonly #deps: Deps;
  /** By webhook, what its turn begins after. Who waits longest stands first. */
  readonly #pending = new Map<number, { shard: number; after: number }>();
  #isRunning = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Ends all that the webhook has of it, by and by. One that is asked for again while it waits has one turn. */
  end(shard: number, webhookId: number): void {
    if (!this.#pending.has(webhookId)) this.#pending.set(webhookId, { shard, after: 0 });
    if (!this.#isRunning) void this.#run();
  }

  stop(): void {
    this.#pending.clear();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (const [webhookId, { shard, after }] of this.#pending) {
      const last = this.#deps.owns(shard) ? await this.#endBatch({ shard, webhookId }, after) : null;
      // It goes to the end, unless all of them were told to stop.
      if (this.#pending.delete(webhookId) && last !== null) this.#pending.set(webhookId, { shard, after: last });
    }
    this.#isRunning = false;
  }

  /** Answers after which one there may be more; null where there is none. */
  async #endBatch(webhook: PullWebhook, after: number): Promise<number | null> {
    const { sql, clock, log, settings } = this.#deps;
    const now = clock.now();
    const oldest = firstIdOfDay(dayOf(now) - settings.unfetchedDays);
    try {
      const { ended, last } = await endUnfetched(sql, webhook, { after, limit: BATCH_ROWS, oldest }, now);
      return ended === BATCH_ROWS ? last : null;
    } catch (error) {
      // It keeps nobody from work: the next look tries again.
      log.warn({ webhook: webhook.webhookId, reason: String(error) }, 'what nobody will fetch could not be ended');
      return null;
    }
  }
}
