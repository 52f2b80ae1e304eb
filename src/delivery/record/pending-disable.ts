/** Switches webhooks off whose recorded state demands it: once, by the owner of their shard alone. */
import { setTimeout as wait } from 'node:timers/promises';
import { hurry, transaction, type Sql, type Tx } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from '../queue/lane.ts';
import { whyCondemned, type DeactivationSettings, type Why } from '../policy/deactivation.ts';
import type { Notify } from './notice.ts';
import { lockShard } from './record-sql.ts';

/** Given by whoever knows webhooks. Answers whether it was switched off: not, where its epoch is another or it is off. */
export type DisableWebhook = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: Why },
  now: Date,
) => Promise<boolean>;

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: { deactivated: (why: Why) => void };
  settings: DeactivationSettings & { leaseMs: number };
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  onLost: (shard: number, fence: number) => void;
  disableWebhook: DisableWebhook;
  /** Hears of each that was switched off, after the commit. */
  notify: Notify;
  /** Its settings have to be read again. */
  onDone: (lane: Lane) => void;
};

const RETRY_MS = 5_000;

const MESSAGES = {
  failures: 'a webhook was switched off: nothing arrives there',
  gone: 'a webhook was switched off: its endpoint answered 410',
} as const satisfies Record<Why, string>;

export class PendingDisables {
  readonly #deps: Deps;
  readonly #inProgress = new Set<Lane>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The state of the lane's webhook, as the table has it, demands that it is switched off. Sends nothing meanwhile. */
  request(lane: Lane, epoch: number): void {
    if (this.#inProgress.has(lane)) return;
    this.#inProgress.add(lane);
    void this.#disable(lane, epoch, this.#reasonFor(lane)).finally(() => {
      this.#inProgress.delete(lane);
      this.#deps.onDone(lane);
    });
  }

  /** Settings and health were read before anybody could demand it; without them it is told of as of any other. */
  #reasonFor({ health, target }: Lane): Why {
    const { clock, settings } = this.#deps;
    if (health === null || target?.isActive !== true) return 'failures';
    return whyCondemned(health, clock.now(), target.retryProfile, settings);
  }

  /** Other processes need no word of it: who owns the shard is who sends. */
  async #disable(lane: Lane, epoch: number, why: Why): Promise<void> {
    const { sql, clock, log, metrics, settings, workerId, fenceOf, onLost, disableWebhook, notify } = this.#deps;
    const { shard, webhookId } = lane;
    const fence = fenceOf(shard);
    if (fence === undefined) return;
    try {
      const isDisabled = await transaction(sql, async (tx) => {
        await hurry(tx, settings.leaseMs);
        if (!(await lockShard(tx, workerId, { shard, fence }))) return undefined;
        return disableWebhook(tx, { shard, webhookId, epoch, why }, clock.now());
      });
      if (isDisabled === undefined) onLost(shard, fence);
      if (isDisabled !== true) return;
      metrics.deactivated(why);
      notify({ shard, webhookId, epoch, about: why });
      log.warn({ webhook: webhookId, shard, why }, MESSAGES[why]);
    } catch (error) {
      const about = { err: error, webhook: webhookId };
      if (isUnavailable(error)) log.warn(about, 'a webhook waits to be switched off: the database is away');
      else log.error(about, 'a webhook could not be switched off; it is tried again');
      await wait(RETRY_MS, undefined, { ref: false });
    }
  }
}
