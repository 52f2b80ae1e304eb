/** Fills lanes from the table: settings of their webhooks, rows of `delivery`, bodies of events. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sealer } from '#db/seal.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Bodies } from '../attempt/bodies.ts';
import { endMany, noteDead, type DeadDeps } from './disabled-epochs.ts';
import type { Lane } from './lane.ts';
import { readAhead } from './read-ahead.ts';
import { fetchLanes, loadTargets } from './queue-sql.ts';
import { FREE, fromStored, momentOf } from '../policy/backoff.ts';
import { UNKNOWN } from '../policy/policy.ts';
import { targetOf, UNUSABLE, type Target, type TargetRow } from './target.ts';

type Deps = DeadDeps & {
  sealer: Sealer;
  bodies: Bodies;
  /** The state of the webhook, as the table has it, demands that it is switched off. */
  onCondemned: (lane: Lane, epoch: number) => void;
  /** The lane may have something to send now. */
  onFilled: (lane: Lane) => void;
};

/** Shards that are fetched for at once; further ones wait. */
const SHARDS_AT_ONCE = 4;
/** And so many beside them for lanes that have something to send: their settings do not wait for 100,000 with a backlog. */
const URGENT_AT_ONCE = 2;
const LANES_AT_ONCE = 50;
const RETRY_MS = 500;

/** Lanes that wait, by shard, and how many shards are served. */
type Hungry = { readonly lanes: Map<number, Set<Lane>>; readonly atOnce: number; busy: number };

const isOpen = (lane: Lane): boolean => !lane.isClosed;

export class Fetcher {
  readonly #deps: Deps;
  readonly #hungry: Hungry = { lanes: new Map(), atOnce: SHARDS_AT_ONCE, busy: 0 };
  readonly #urgent: Hungry = { lanes: new Map(), atOnce: URGENT_AT_ONCE, busy: 0 };
  readonly #busy = new Set<number>();
  /** Told of in the log, each once: they are read again every half a minute. */
  readonly #unusable = new WeakSet<Lane>();
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * The lane needs its settings, or rows. Lanes of one shard that ask together are served by one statement. Those go first
   * that have something to send, or are about to.
   */
  want(lane: Lane, isUrgent = lane.target === null && lane.holding.queued > 0): void {
    if (lane.isClosed || this.#isStopped) return;
    const hungry = isUrgent ? this.#urgent : this.#hungry;
    const lanes = hungry.lanes.get(lane.shard);
    if (lanes === undefined) hungry.lanes.set(lane.shard, new Set([lane]));
    else lanes.add(lane);
    this.#serve();
  }

  stop(): void {
    this.#isStopped = true;
    this.#hungry.lanes.clear();
    this.#urgent.lanes.clear();
  }

  #serve(): void {
    for (const hungry of [this.#urgent, this.#hungry]) {
      for (const [shard, lanes] of hungry.lanes) {
        if (hungry.busy >= hungry.atOnce) break;
        if (!this.#busy.has(shard)) void this.#serveShard(hungry, shard, lanes);
      }
    }
  }

  async #serveShard(hungry: Hungry, shard: number, lanes: Set<Lane>): Promise<void> {
    const batch = [...lanes].slice(0, LANES_AT_ONCE);
    for (const lane of batch) lanes.delete(lane);
    // Behind the others: four shards with ever more than one batch would be served alone.
    hungry.lanes.delete(shard);
    if (lanes.size > 0) hungry.lanes.set(shard, lanes);
    this.#busy.add(shard);
    hungry.busy += 1;
    const open = batch.filter(isOpen);
    try {
      await this.#feed(shard, open);
    } catch (error) {
      // What reads the database is tried again where it failed: this is a fault of our own, and the next look asks again.
      this.#deps.log.error({ err: error, shard }, 'lanes could not be filled');
    } finally {
      this.#busy.delete(shard);
      hungry.busy -= 1;
    }
    this.#serve();
  }

  async #feed(shard: number, lanes: Lane[]): Promise<void> {
    try {
      await this.#loadTargets(shard, lanes);
      await this.#fetchRows(shard, lanes);
    } catch (error) {
      return this.#feedAgain(shard, lanes, error);
    }
    for (const lane of lanes) {
      if (lane.isClosed) continue;
      if (lane.target === null || lane.wantsFetch) this.want(lane);
      this.#deps.onFilled(lane);
    }
  }

  /** Where it is not the database that is away it may be one lane that fails: the others are fed without it. */
  async #feedAgain(shard: number, lanes: Lane[], error: unknown): Promise<void> {
    const isAway = isUnavailable(error);
    if (!isAway && lanes.length > 1) {
      const middle = Math.ceil(lanes.length / 2);
      await this.#feed(shard, lanes.slice(0, middle).filter(isOpen));
      return this.#feed(shard, lanes.slice(middle).filter(isOpen));
    }
    const about = { shard, lanes: lanes.length, reason: String(error) };
    this.#deps.log.warn(about, 'deliveries could not be fetched; trying again');
    const again = wait(RETRY_MS, undefined, { ref: false }).then(() => lanes.forEach((lane) => this.want(lane)));
    if (isAway) await again;
  }

  async #loadTargets(shard: number, lanes: readonly Lane[]): Promise<void> {
    const without = lanes.filter((lane) => lane.target === null);
    if (without.length === 0) return;
    const { sql } = this.#deps;
    const changes = new Map(without.map((lane) => [lane, lane.changes]));
    const ids = without.map((lane) => lane.webhookId);
    const rows = await loadTargets(sql, shard, ids);
    for (const lane of without) {
      // Changed while it was being read: what was read may be the old row.
      if (lane.changes !== changes.get(lane)) continue;
      const row = rows.find(({ id }) => id === lane.webhookId);
      lane.target = this.#targetOf(lane, row);
      // A webhook that is off ends all it has, also what is not due yet.
      if (!lane.target.isActive) lane.holding.lookAgain();
      if (lane.health?.epoch !== lane.target.epoch) this.#adopt(lane, lane.target.epoch, row);
      // Written down, and not done yet: by a predecessor who died in between, or by ourselves just now.
      if (row?.isCondemned === true && lane.condemnedEpoch === row.epoch) this.#deps.onCondemned(lane, row.epoch);
    }
  }

  /** What the table knows of the webhook; of an epoch that we count ourselves we know better. */
  #adopt(lane: Lane, epoch: number, row: TargetRow | undefined): void {
    const { consecutiveFailures, firstFailureAt, isWarned, isProven } = row ?? UNKNOWN;
    lane.health = { epoch, consecutiveFailures, firstFailureAt, isWarned, isProven };
    lane.gate.hold = row === undefined ? FREE : fromStored(row, consecutiveFailures, momentOf(this.#deps.clock));
    lane.condemnedEpoch = row?.isCondemned === true ? epoch : null;
  }

  /** A row that cannot be used holds back its own webhook and no other; it is looked at again with everything else. */
  #targetOf(lane: Lane, row: TargetRow | undefined): Target {
    try {
      const target = targetOf(row, this.#deps.sealer);
      this.#unusable.delete(lane);
      return target;
    } catch (error) {
      const about = { err: error, webhook: lane.webhookId };
      if (!this.#unusable.has(lane)) this.#deps.log.error(about, 'the webhook cannot be used: what it has waits');
      this.#unusable.add(lane);
      return UNUSABLE;
    }
  }

  async #fetchRows(shard: number, lanes: readonly Lane[]): Promise<void> {
    const hungry = lanes.filter((lane) => lane.wantsFetch);
    const wanting = (await endMany(this.#deps, hungry)).filter((lane) => lane.wantsFetch);
    if (wanting.length === 0) return;
    const beganMs = this.#deps.clock.now().getTime();
    const fetches = wanting.map((lane) => lane.holding.beginFetch(beganMs));
    try {
      const rows = await fetchLanes(
        this.#deps.sql,
        shard,
        wanting.map((lane) => lane.webhookId),
        fetches,
      );
      const byWebhook = Map.groupBy(rows, (row) => row.webhookId);
      const nowMs = this.#deps.clock.now().getTime();
      const sending = new Set(wanting.filter((lane) => lane.target?.isActive === true).map((lane) => lane.webhookId));
      const due = rows.filter((row) => row.dueAt.getTime() <= nowMs && sending.has(row.webhookId));
      await readAhead(this.#deps, shard, due);
      for (const [index, lane] of wanting.entries()) {
        // What is not due yet is taken from a webhook only that is over, to end it: one that changes meanwhile may go on.
        const isOver = lane.target?.isActive === false && lane.target !== UNUSABLE;
        const until = isOver ? Number.POSITIVE_INFINITY : nowMs;
        const fetch = fetches[index];
        if (fetch === undefined) continue;
        const found = byWebhook.get(lane.webhookId) ?? [];
        lane.holding.endFetch(found, fetch, until);
        noteDead(lane, found, fetch);
      }
    } catch (error) {
      for (const lane of wanting) lane.holding.abandonFetch();
      throw error;
    }
  }
}
