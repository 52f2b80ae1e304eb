/**
 * Counts how long a webhook has been unusable (its key cannot be decrypted, or its url is invalid). Each hour counts as internal faults of
 * all its due deliveries (policy/policy.ts). Due times stay, so the backlog keeps its age and is sent at once when the webhook can
 * be used again.
 */
import { faultUnitsIn, INTERNAL_FAULTS_MAX } from '../policy/policy.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { OwnerTokens } from '../leases/ownership.ts';
import type { Lane } from './lane.ts';
import { countFaults, type Position } from './queue-sql.ts';

const COUNTED_EVERY_MS = 3_600_000;
/** A statement of this kind takes about 50 ms; other lanes of the shard wait for at most one. */
const BATCH_ROWS = 2_000;

/** `sinceMs` is monotonic, so that a wrong clock ends nothing. `after`: the last delivery counted for the hour that passed. */
type Counting = { sinceMs: number; after: Position | null };

export class Unusable {
  readonly #runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>;
  readonly #ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>;
  readonly #lanes = new WeakMap<Lane, Counting>();

  constructor(runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>, ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>) {
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
