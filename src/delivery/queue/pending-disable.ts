/** Disables webhooks whose recorded state requires it; only the owner of the shard does so. */
import { setTimeout as wait } from 'node:timers/promises';
import { limitWaits, transaction, type Tx } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { OwnerTokens } from '../leases/ownership.ts';
import { disableReason, type DeactivationSettings, type DisableReason } from '../policy/policy.ts';
import type { EngineMetrics } from '../delivery-metrics.ts';
import type { Lane } from './lane.ts';
import type { FetchRequests } from './fetch-requests.ts';
import type { Notify } from '../outcomes.ts';
import { lockShard } from '../record/record-sql.ts';

/** Disables a webhook; returns false if it is disabled already or has another epoch. */
export type DisableWebhook = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: DisableReason },
  now: Date,
) => Promise<boolean>;

type PendingDisableDeps = {
  ownership: OwnerTokens;
  requests: Pick<FetchRequests, 'reload'>;
  metrics: Pick<EngineMetrics, 'deactivated'>;
  /** Disables a webhook, in the transaction that locks its shard lease. */
  disableWebhook: DisableWebhook;
  /** Called after the commit for each webhook that was disabled. */
  notify: Notify;
  settings: DeactivationSettings & { leaseMs: number };
};

const RETRY_MS = 5_000;

const MESSAGES = {
  failures: 'webhook disabled: too many consecutive failures',
  gone: 'webhook disabled: its endpoint answered 410',
} as const satisfies Record<DisableReason, string>;

export class PendingDisables {
  readonly #runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>;
  readonly #deps: PendingDisableDeps;
  readonly #inProgress = new Set<Lane>();

  constructor(runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>, deps: PendingDisableDeps) {
    this.#runtime = runtime;
    this.#deps = deps;
  }

  /** Disables the lane's webhook because its stored state requires it; the lane sends nothing until then. */
  request(lane: Lane, epoch: number): void {
    if (this.#inProgress.has(lane)) return;
    this.#inProgress.add(lane);
    void this.#disable(lane, epoch, this.#reasonFor(lane)).finally(() => {
      this.#inProgress.delete(lane);
      this.#deps.requests.reload(lane);
    });
  }

  /** Returns the reason. Settings and health were loaded before the request; without them the reason is `failures`. */
  #reasonFor({ health, target }: Lane): DisableReason {
    if (health === null || target?.isActive !== true) return 'failures';
    return disableReason(health, this.#runtime.clock.now(), target.retryProfile, this.#deps.settings);
  }

  /** No NOTIFY is sent: only the owner of the shard sends to the webhook. */
  async #disable(lane: Lane, epoch: number, why: DisableReason): Promise<void> {
    const { sql, clock, log } = this.#runtime;
    const { ownership, metrics, settings, disableWebhook, notify } = this.#deps;
    const { shard, webhookId } = lane;
    const fence = ownership.fenceOf(shard);
    if (fence === undefined) return;
    try {
      const isDisabled = await transaction(sql, async (tx) => {
        await limitWaits(tx, settings.leaseMs);
        if (!(await lockShard(tx, ownership.workerId, { shard, fence }))) return undefined;
        return disableWebhook(tx, { shard, webhookId, epoch, why }, clock.now());
      });
      if (isDisabled === undefined) ownership.lost(shard, fence);
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
