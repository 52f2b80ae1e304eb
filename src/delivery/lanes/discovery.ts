/** Which lanes have work, and when: looked up in the table on a take-over and from time to time, then kept on one timer. */
import type { Sql } from '#database/pool.ts';
import type { Clock } from '#kernel/clock.ts';
import { SHARDS } from '#kernel/ids.ts';
import type { Log } from '#kernel/log.ts';
import type { Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';
import { discoverLanes } from './queries.ts';
import { Wheel } from './wheel.ts';

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  lanes: Lanes;
  owns: (shard: number) => boolean;
  /** The lane needs its settings, or rows. */
  want: (lane: Lane) => void;
  /** The lane may be able to send again. */
  onDue: (lane: Lane) => void;
};

const TICK_MS = 250;
const EVERYTHING_MS = 30_000;
const allShards = Array.from({ length: SHARDS }, (_, shard) => shard);

export class Discovery {
  readonly #deps: Deps;
  readonly #wheel = new Wheel<Lane>();
  #timers: NodeJS.Timeout[] = [];

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timers = [setInterval(() => this.#wake(), TICK_MS), setInterval(() => this.everything(), EVERYTHING_MS)];
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Sees to it that the lane gets what it needs: rows, settings, or a look at the right time. */
  look(lane: Lane): void {
    if (lane.target === null || lane.wantsFetch) this.#deps.want(lane);
    this.#wheel.add(lane, lane.wakeAtMs);
    if (lane.pausedUntilMs > this.#deps.clock.now().getTime()) this.#wheel.add(lane, lane.pausedUntilMs);
  }

  /** Looks for work in the table, shard after shard, so that a take-over does not crowd out live traffic. */
  shards(shards: readonly number[]): void {
    this.#discover(shards).catch((error: unknown) =>
      this.#deps.log.warn({ reason: String(error) }, 'looking for work failed; it is tried again'),
    );
  }

  everything(): void {
    this.#deps.lanes.sweep();
    // Settings that say "off" are read again: a word that went missing must not hold a webhook back for ever.
    for (const lane of this.#deps.lanes.all()) if (lane.target?.isActive === false) lane.forgetTarget();
    this.shards(allShards);
  }

  async #discover(shards: readonly number[]): Promise<void> {
    const { sql, clock, lanes, owns } = this.#deps;
    for (const shard of shards) {
      if (!owns(shard)) continue;
      for (const { webhookId, dueAt } of await discoverLanes(sql, shard)) {
        if (!owns(shard)) break;
        const lane = lanes.get(shard, webhookId);
        if (dueAt.getTime() <= clock.now().getTime()) lane.lookAgain();
        else lane.wakeAtMs = Math.min(lane.wakeAtMs, dueAt.getTime());
        this.look(lane);
      }
    }
  }

  #wake(): void {
    const nowMs = this.#deps.clock.now().getTime();
    for (const lane of this.#wheel.due(nowMs)) {
      if (lane.isClosed) continue;
      if (lane.wakeAtMs <= nowMs) {
        lane.wakeAtMs = Number.POSITIVE_INFINITY;
        lane.lookAgain();
      }
      this.look(lane);
      this.#deps.onDue(lane);
    }
  }
}
