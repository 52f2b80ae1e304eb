/** Switches webhooks off whose recorded state demands it: once, by the owner of their shard alone. */
import { setTimeout as wait } from 'node:timers/promises';
import { hurry, transaction, type Sql, type Tx } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from '../queue/lane.ts';
import { disableReason, type DeactivationSettings, type DisableReason } from '../policy/deactivation.ts';
import type { Tell } from './notice.ts';
import { holdShard } from './record-sql.ts';

/** Given by whoever knows webhooks. Answers whether it was switched off: not, where its epoch is another or it is off. */
export type SwitchOff = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: DisableReason },
  now: Date,
) => Promise<boolean>;

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: { deactivated: (why: DisableReason) => void };
  settings: DeactivationSettings & { leaseMs: number };
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  onLost: (shard: number, fence: number) => void;
  switchOff: SwitchOff;
  /** Hears of each that was switched off, after the commit. */
  tell: Tell;
  /** Its settings have to be read again. */
  onDone: (lane: Lane) => void;
};

const RETRY_MS = 5_000;

const TOLD = {
  failures: 'a webhook was switched off: nothing arrives there',
  gone: 'a webhook was switched off: its endpoint answered 410',
} as const satisfies Record<DisableReason, string>;

export class SwitchOffs {
  readonly #deps: Deps;
  readonly #underWay = new Set<Lane>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The state of the lane's webhook, as the table has it, demands that it is switched off. Sends nothing meanwhile. */
  demand(lane: Lane, epoch: number): void {
    if (this.#underWay.has(lane)) return;
    this.#underWay.add(lane);
    void this.#do(lane, epoch, this.#whyOf(lane)).finally(() => {
      this.#underWay.delete(lane);
      this.#deps.onDone(lane);
    });
  }

  /** Settings and health were read before anybody could demand it; without them it is told of as of any other. */
  #whyOf({ health, target }: Lane): DisableReason {
    const { clock, settings } = this.#deps;
    if (health === null || target?.isActive !== true) return 'failures';
    return disableReason(health, clock.now(), target.retryProfile, settings);
  }

  /** Other processes need no word of it: who owns the shard is who sends. */
  async #do(lane: Lane, epoch: number, why: DisableReason): Promise<void> {
    const { sql, clock, log, metrics, settings, workerId, fenceOf, onLost, switchOff, tell } = this.#deps;
    const { shard, webhookId } = lane;
    const fence = fenceOf(shard);
    if (fence === undefined) return;
    try {
      const isDone = await transaction(sql, async (tx) => {
        await hurry(tx, settings.leaseMs);
        if (!(await holdShard(tx, workerId, { shard, fence }))) return undefined;
        return switchOff(tx, { shard, webhookId, epoch, why }, clock.now());
      });
      if (isDone === undefined) onLost(shard, fence);
      if (isDone !== true) return;
      metrics.deactivated(why);
      tell({ shard, webhookId, epoch, about: why });
      log.warn({ webhook: webhookId, shard, why }, TOLD[why]);
    } catch (error) {
      const about = { err: error, webhook: webhookId };
      if (isUnavailable(error)) log.warn(about, 'a webhook waits to be switched off: the database is away');
      else log.error(about, 'a webhook could not be switched off; it is tried again');
      await wait(RETRY_MS, undefined, { ref: false });
    }
  }
}
