/**
 * Ends what needs no attempt: deliveries of older epochs and of unusable webhooks, and webhooks whose recorded state requires that they
 * are disabled. Only the owner of the shard does so.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { limitWaits, transaction, type Tx } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';
import type { EngineMetrics } from '../delivery-metrics.ts';
import type { OwnerTokens } from '../leases/ownership.ts';
import type { Notify } from '../outcomes.ts';
import type { Pending } from '../policy/entry.ts';
import {
  INTERNAL_FAULTS_MAX,
  disableReason,
  faultUnitsIn,
  type DeactivationSettings,
  type DisableReason,
} from '../policy/policy.ts';
import { lockShard } from '../record/record-sql.ts';
import type { Lane } from './lane.ts';
import type { FetchRequests } from './lanes.ts';
import type { Fetch } from './loaded-deliveries.ts';
import { countFaults, endOldEpochs, type Position } from './queue-sql.ts';

type EndingRuntime = Pick<Runtime, 'sql' | 'clock' | 'log'>;

// Ends large numbers of pending deliveries of older epochs in the database. Through memory, 200 at a time, a million took six minutes
// on a busy machine and delayed all deliveries published after the webhook was enabled again.

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
  { sql, clock, log }: EndingRuntime,
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
  runtime: EndingRuntime,
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>,
  lanes: readonly Lane[],
): Promise<Lane[]> {
  const rest: Lane[] = [];
  for (const lane of lanes) if (!(await endOldEpochBatch(runtime, ownership, lane)) && !lane.isClosed) rest.push(lane);
  return rest;
}

// Counts how long a webhook has been unusable (its key cannot be decrypted, or its url is invalid). Each hour counts as internal faults of
// all its due deliveries (policy/policy.ts). Due times stay, so the backlog keeps its age and is sent at once when the webhook can
// be used again.

const COUNTED_EVERY_MS = 3_600_000;

/** `sinceMs` is monotonic, so that a wrong clock ends nothing. `after`: the last delivery counted for the hour that passed. */
type Counting = { sinceMs: number; after: Position | null };

export class Unusable {
  readonly #runtime: EndingRuntime;
  readonly #ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>;
  readonly #lanes = new WeakMap<Lane, Counting>();

  constructor(runtime: EndingRuntime, ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>) {
    this.#runtime = runtime;
    this.#ownership = ownership;
  }

  /** Starts counting, and logs the error once: the row is read again every 30 s. */
  add(lane: Lane, error: unknown): void {
    if (this.#lanes.has(lane)) return;
    this.#runtime.log.error({ err: error, webhook: lane.webhookId }, 'webhook unusable; its deliveries wait');
    this.#lanes.set(lane, { sinceMs: this.#runtime.clock.monotonicMs(), after: null });
  }

  remove(lane: Lane): void {
    this.#lanes.delete(lane);
  }

  /** Counts an hour that has passed for one batch of deliveries. Returns whether more remain. */
  async count(lane: Lane): Promise<boolean> {
    const { sql, clock } = this.#runtime;
    const { workerId } = this.#ownership;
    const { shard, webhookId, deliveries } = lane;
    const [counting, fence] = [this.#lanes.get(lane), this.#ownership.fenceOf(shard)];
    if (counting === undefined || fence === undefined || !deliveries.isFullyRecorded) return false;
    // The time before the statement, whose own duration is part of the next hour.
    const nowMs = clock.monotonicMs();
    if (nowMs - counting.sinceMs < COUNTED_EVERY_MS) return false;
    const { after } = counting;
    const hour = {
      webhookId,
      after,
      faults: faultUnitsIn(COUNTED_EVERY_MS),
      most: INTERNAL_FAULTS_MAX,
      limit: BATCH_ROWS,
    };
    const { seen, last } = await countFaults(sql, workerId, { shard, fence }, hour, clock.now());
    counting.after = seen < BATCH_ROWS ? null : last;
    if (counting.after !== null) return true;
    counting.sinceMs = nowMs;
    // Queued deliveries have their old counts: they are read again.
    deliveries.returnQueued();
    return false;
  }
}

// Disables webhooks whose stored state requires it.

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
  readonly #runtime: EndingRuntime;
  readonly #deps: PendingDisableDeps;
  readonly #inProgress = new Set<Lane>();

  constructor(runtime: EndingRuntime, deps: PendingDisableDeps) {
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
