/**
 * Ends pull deliveries that no listener will fetch: their webhook was deleted or disabled, or they are too old. No lane
 * contains them, so the owner of their shard does it whenever it polls for work.
 */
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Ownership } from '../leases/ownership.ts';
import { endUnfetched, type PullWebhook } from './pull-deliveries-sql.ts';

/** Age limit: a pending delivery keeps the partitions of its day, which all stores share, from being dropped. */
type UnfetchedSettings = { unfetchedDays: number };

/** Rows per statement, which takes some 50 ms. */
const BATCH_ROWS = 2_000;

/** Runs one statement at a time, to leave the connections to others, and alternates between webhooks. */
export class Unfetched {
  readonly #runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>;
  readonly #ownership: Pick<Ownership, 'owns'>;
  readonly #settings: UnfetchedSettings;
  /** By webhook, the id after which its next page begins; the webhook that has waited longest comes first. */
  readonly #pending = new Map<number, { shard: number; after: number }>();
  #isRunning = false;

  constructor(
    runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>,
    ownership: Pick<Ownership, 'owns'>,
    settings: UnfetchedSettings,
  ) {
    this.#runtime = runtime;
    this.#ownership = ownership;
    this.#settings = settings;
  }

  /** Ends the deliveries of the webhook page by page. Does nothing if the webhook is queued already. */
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
      const last = this.#ownership.owns(shard) ? await this.#endBatch({ shard, webhookId }, after) : null;
      // Queues it again until its last page, unless `stop` has emptied the queue.
      if (this.#pending.delete(webhookId) && last !== null) this.#pending.set(webhookId, { shard, after: last });
    }
    this.#isRunning = false;
  }

  /** Returns the id after which the next page begins; null after the last one. */
  async #endBatch(webhook: PullWebhook, after: number): Promise<number | null> {
    const { sql, clock, log } = this.#runtime;
    const now = clock.now();
    const oldest = firstIdOfDay(dayOf(now) - this.#settings.unfetchedDays);
    try {
      const { ended, last } = await endUnfetched(sql, webhook, { after, limit: BATCH_ROWS, oldest }, now);
      return ended === BATCH_ROWS ? last : null;
    } catch (error) {
      // Does not prevent other work: the next poll tries again.
      log.warn({ webhook: webhook.webhookId, reason: String(error) }, 'ending unfetched pull deliveries failed');
      return null;
    }
  }
}
