/**
 * Ends large numbers of pending deliveries of older epochs in the database. Through memory, 200 at a time, a million
 * took six minutes on a busy machine and delayed all deliveries published after the webhook was enabled again.
 */
import { isUnavailable } from '#db/unavailable.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { OwnerTokens } from '../leases/ownership.ts';
import type { Fetch } from './loaded-deliveries.ts';
import type { Pending } from '../policy/entry.ts';
import type { Lane } from './lane.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';
import { endOldEpochs } from './queue-sql.ts';
import { setTimeout as wait } from 'node:timers/promises';
import { limitWaits, transaction, type Tx } from '#db/pool.ts';
import { disableReason, type DeactivationSettings, type DisableReason } from '../policy/policy.ts';
import type { EngineMetrics } from '../delivery-metrics.ts';
import type { LaneWork } from '../worker-links.ts';
import type { Notify } from '../record/record.ts';
import { lockShard } from '../record/record-sql.ts';

/** A statement of this kind takes about 50 ms; other lanes of the shard wait for at most one. */
const BATCH_ROWS = 2_000;
const BEGINNING = new Date(0);

/** Marks the lane if a full fetch ended with a delivery of an older epoch: more of them may follow in the table. */
export function noteOldEpochs(lane: Lane, rows: readonly Pending[], { limit }: Fetch): void {
  const last = rows.at(-1);
  const isOldEpoch = last !== undefined && lane.target !== null && last.epoch < lane.target.epoch;
  if (isOldEpoch && rows.length >= limit && lane.oldEpochsFrom === null) lane.oldEpochsFrom = BEGINNING;
}

/**
 * Ends one batch of the lane and returns whether more may remain. Runs only while no attempt is in flight or
 * unrecorded, because its outcome would be lost with its row.
 */
async function endOldEpochBatch(
  { sql, clock, log }: Pick<Runtime, 'sql' | 'clock' | 'log'>,
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>,
  lane: Lane,
): Promise<boolean> {
  const { shard, webhookId, target, oldEpochsFrom: from } = lane;
  const fence = ownership.fenceOf(shard);
  const isKnown = target !== null && target !== UNUSABLE && fence !== undefined;
  if (from === null || from === 'one-by-one' || !isKnown || !lane.deliveries.isFullyRecorded) return false;
  try {
    const oldEpochs = { webhookId, epoch: target.epoch, from, limit: BATCH_ROWS };
    const { ended, dueAt } = await endOldEpochs(sql, ownership.workerId, { shard, fence }, oldEpochs, clock.now());
    const isAtEnd = ended < BATCH_ROWS;
    // One more pass from the beginning finds rows with earlier due times, written while a clock was wrong.
    lane.oldEpochsFrom = isAtEnd ? (from > BEGINNING ? BEGINNING : null) : dueAt;
    return lane.oldEpochsFrom !== null;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    // For example, a partition was dropped. The deliveries are then ended one by one.
    log.warn(
      { err: error, webhook: webhookId, shard },
      'old epochs could not be ended in a batch; ending deliveries one by one',
    );
    lane.oldEpochsFrom = 'one-by-one';
    return false;
  }
}

/** Ends one batch of each lane and returns the lanes without a remaining backlog of older epochs. */
export async function endOldEpochBatches(
  runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>,
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>,
  lanes: readonly Lane[],
): Promise<Lane[]> {
  const rest: Lane[] = [];
  for (const lane of lanes) if (!(await endOldEpochBatch(runtime, ownership, lane)) && !lane.isClosed) rest.push(lane);
  return rest;
}

// Disables webhooks whose recorded state requires it; only the owner of the shard does so.

/** Disables a webhook; returns false if it is disabled already or has another epoch. */
export type DisableWebhook = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: DisableReason },
  now: Date,
) => Promise<boolean>;

type PendingDisableDeps = {
  ownership: OwnerTokens;
  work: Pick<LaneWork, 'reload'>;
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
      this.#deps.work.reload(lane);
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
