/** Disables webhooks whose recorded state requires it; only the owner of the shard does so. */
import { setTimeout as wait } from 'node:timers/promises';
import { limitWaits, transaction, type Sql, type Tx } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import { disableReason, type DeactivationSettings, type DisableReason } from '../policy/deactivation.ts';
import type { Target } from '../attempt/target.ts';
import type { Health } from '../policy/policy.ts';
import type { Notify } from './record.ts';
import { lockShard } from './record-sql.ts';

/** Disables a webhook; returns false if it is disabled already or has another epoch. */
export type DisableWebhook = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: DisableReason },
  now: Date,
) => Promise<boolean>;

/** What is read of a lane whose webhook is to be disabled. */
type FailingLane = {
  readonly shard: number;
  readonly webhookId: number;
  readonly health: Health | null;
  readonly target: Target | null;
};

type Deps<L> = {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: { deactivated: (why: DisableReason) => void };
  settings: DeactivationSettings & { leaseMs: number };
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  onLost: (shard: number, fence: number) => void;
  disableWebhook: DisableWebhook;
  /** Called after the commit for each webhook that was disabled. */
  notify: Notify;
  /** The settings of the lane's webhook have to be read again. */
  onDone: (lane: L) => void;
};

const RETRY_MS = 5_000;

const MESSAGES = {
  failures: 'webhook disabled: too many consecutive failures',
  gone: 'webhook disabled: its endpoint answered 410',
} as const satisfies Record<DisableReason, string>;

export class PendingDisables<L extends FailingLane> {
  readonly #deps: Deps<L>;
  readonly #inProgress = new Set<L>();

  constructor(deps: Deps<L>) {
    this.#deps = deps;
  }

  /** Disables the lane's webhook because its stored state requires it; the lane sends nothing until then. */
  request(lane: L, epoch: number): void {
    if (this.#inProgress.has(lane)) return;
    this.#inProgress.add(lane);
    void this.#disable(lane, epoch, this.#reasonFor(lane)).finally(() => {
      this.#inProgress.delete(lane);
      this.#deps.onDone(lane);
    });
  }

  /** Returns the reason. Settings and health were loaded before the request; without them the reason is `failures`. */
  #reasonFor({ health, target }: L): DisableReason {
    const { clock, settings } = this.#deps;
    if (health === null || target?.isActive !== true) return 'failures';
    return disableReason(health, clock.now(), target.retryProfile, settings);
  }

  /** No NOTIFY is sent: only the owner of the shard sends to the webhook. */
  async #disable(lane: L, epoch: number, why: DisableReason): Promise<void> {
    const { sql, clock, log, metrics, settings, workerId, fenceOf, onLost, disableWebhook, notify } = this.#deps;
    const { shard, webhookId } = lane;
    const fence = fenceOf(shard);
    if (fence === undefined) return;
    try {
      const isDisabled = await transaction(sql, async (tx) => {
        await limitWaits(tx, settings.leaseMs);
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
      if (isUnavailable(error)) log.warn(about, 'disabling webhook failed: database unavailable; retrying');
      else log.error(about, 'disabling webhook failed; retrying');
      await wait(RETRY_MS, undefined, { ref: false });
    }
  }
}
