/** Which lanes have work: looked up in the table on a take-over, after words may have been missed, and from time to time. */
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import type { Sql } from '#database/pool.ts';
import type { Clock } from '#kernel/clock.ts';
import { SHARDS } from '#kernel/ids.ts';
import type { Log } from '#kernel/log.ts';
import type { Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';
import { discoverLanes, type Head } from './queries.ts';

type Deps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  lanes: Lanes;
  owns: (shard: number) => boolean;
  /** The lane may need something: settings, rows, or a look later. */
  look: (lane: Lane) => void;
};

const EVERYTHING_MS = 30_000;
/** What is due later than this is found again before: a lane in memory for each of 100,000 deferred deliveries is not needed. */
const HORIZON_MS = 2 * EVERYTHING_MS;
/** Lanes that one statement answers: some 10 ms of the database's time, and less of ours. */
const LANES_AT_ONCE = 1_000;
const allShards = Array.from({ length: SHARDS }, (_, shard) => shard);

export class Discovery {
  readonly #deps: Deps;
  /** In the order in which they were asked for; one after the other, so that live traffic has all other connections. */
  readonly #asked = new Set<number>();
  #isRunning = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = setInterval(() => this.everything(), EVERYTHING_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#asked.clear();
  }

  /** Looks for work in the table. A shard that is asked for again while it waits is looked at once. */
  shards(shards: readonly number[]): void {
    for (const shard of shards) this.#asked.add(shard);
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#run().catch((error: unknown) =>
      this.#deps.log.warn({ reason: String(error) }, 'looking for work failed; it is tried again'),
    );
  }

  everything(): void {
    this.#deps.lanes.sweep();
    // Settings that say "off" are read again: a word that went missing must not hold a webhook back for ever.
    for (const lane of this.#deps.lanes.all()) if (lane.target?.isActive === false) lane.forgetTarget();
    this.shards(allShards);
  }

  async #run(): Promise<void> {
    try {
      for (const shard of this.#asked) {
        this.#asked.delete(shard);
        if (this.#deps.owns(shard)) await this.#discover(shard);
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #discover(shard: number): Promise<void> {
    let heads: Head[];
    let after = 0;
    do {
      heads = await discoverLanes(this.#deps.sql, shard, after, LANES_AT_ONCE);
      // It may have been lost while the table was read.
      if (!this.#deps.owns(shard)) return;
      for (const head of heads) this.#found(shard, head);
      after = heads.at(-1)?.webhookId ?? after;
      await yieldToOthers();
    } while (heads.length === LANES_AT_ONCE);
  }

  /** `head` is what a webhook has that is due first. */
  #found(shard: number, head: Head): void {
    const { clock, lanes, look } = this.#deps;
    const dueAtMs = head.dueAt.getTime();
    const waitMs = dueAtMs - clock.now().getTime();
    if (waitMs > HORIZON_MS && lanes.find(shard, head.webhookId) === undefined) return;
    const lane = lanes.get(shard, head.webhookId);
    if (waitMs > 0) lane.holding.wakeAtMs = Math.min(lane.holding.wakeAtMs, dueAtMs);
    // A lane that has it in hand has nothing to fetch: what is missing behind it comes to the front in its turn.
    else if (!lane.holding.knows(head.id)) lane.holding.lookAgain();
    look(lane);
  }
}
