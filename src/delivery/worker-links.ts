/** The work that parts of a worker pass to each other: lanes to load and send, shards that were gained or lost. */
import type { Runtime } from '#runtime/runtime.ts';
import type { Quarantine } from './quarantine.ts';
import type { Discovery } from './queue/discovery.ts';
import type { Dispatcher, Schedule } from './queue/dispatcher.ts';
import type { Fetcher } from './queue/fetcher.ts';
import type { Lane, Lanes } from './queue/lane.ts';
import type { Recorder } from './record/record.ts';

/** The parts that take lanes: one loads settings and rows, one wakes lanes, one sends. */
type LaneParts = {
  fetcher: Pick<Fetcher, 'request'>;
  schedule: Pick<Schedule, 'update' | 'removeClosed'>;
  dispatcher: Pick<Dispatcher, 'enqueue' | 'pump' | 'removeClosed'>;
};

/**
 * Moves lanes to the parts that load, schedule and send them. Some of these parts move lanes themselves: so `link` names them once,
 * after all of them are constructed and before there is a lane.
 */
export class LaneWork {
  #linked: LaneParts | undefined;

  link(parts: LaneParts): void {
    this.#linked = parts;
  }

  get #parts(): LaneParts {
    if (this.#linked === undefined) throw new Error('A lane was used before the parts of the worker were linked');
    return this.#linked;
  }

  /** Starts what the lanes can send and schedules their timers and fetches. Does nothing for lanes without work. */
  send(lanes: Iterable<Lane>): void {
    const { schedule, dispatcher } = this.#parts;
    let hasWork = false;
    for (const lane of lanes) {
      if (lane.isEmpty) continue;
      hasWork = true;
      schedule.update(lane);
      dispatcher.enqueue(lane);
    }
    if (hasWork) dispatcher.pump();
  }

  /** Discards the settings of a webhook that may have changed: nothing is sent to it until its row has been read again. */
  reload(lane: Lane): void {
    lane.forgetTarget();
    this.#parts.fetcher.request(lane);
  }

  /** Removes evicted lanes, which could otherwise stay in a queue for long. */
  removeClosed(): void {
    const { schedule, dispatcher } = this.#parts;
    schedule.removeClosed();
    dispatcher.removeClosed();
  }
}

/** The parts with work of shards. */
type ShardParts = {
  lanes: Lanes;
  quarantine: Quarantine;
  recorder: Recorder;
  dispatcher: Dispatcher;
  discovery: Discovery;
};

/** What the ownership of shards calls. */
export type ShardEvents = Pick<ShardWork, 'gained' | 'lost' | 'kept' | 'drain' | 'isRecording'>;

/**
 * The work of the owned shards. The parts that do it need the ownership, whose changes they follow here: so `link` names them
 * once, after all of them are constructed and before the first shard is taken.
 */
export class ShardWork {
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  readonly #laneWork: Pick<LaneWork, 'send' | 'reload'>;
  #linked: ShardParts | undefined;
  #changedAtMs = 0;

  constructor(runtime: Pick<Runtime, 'clock' | 'log'>, laneWork: Pick<LaneWork, 'send' | 'reload'>) {
    this.#runtime = runtime;
    this.#laneWork = laneWork;
  }

  link(parts: ShardParts): void {
    this.#linked = parts;
  }

  get #parts(): ShardParts {
    if (this.#linked === undefined) throw new Error('A shard changed before the parts of the worker were linked');
    return this.#linked;
  }

  /** Wall-clock time when notifications may last have been missed, or shards were taken. */
  get changedAtMs(): number {
    return this.#changedAtMs;
  }

  noteChange(): void {
    this.#changedAtMs = this.#runtime.clock.now().getTime();
  }

  /** Loads the quarantine of taken shards, then their work. */
  gained(shards: readonly number[]): void {
    this.noteChange();
    void this.#begin(shards);
  }

  async #begin(shards: readonly number[]): Promise<void> {
    const { lanes, quarantine, discovery } = this.#parts;
    try {
      const ready = await quarantine.load(shards);
      // Lanes may have received work before the shard was ready, and polling does not return rows that are in memory already.
      this.#laneWork.send(lanes.ofShards(ready));
      discovery.scanShards(ready);
    } catch (error) {
      this.#runtime.log.error(
        { err: error, shards },
        'starting the work of shards failed; their webhooks are scanned again',
      );
      discovery.scanShards(shards);
    }
  }

  /** Aborts the exchanges of lost shards and discards their queues at once. */
  lost(shards: readonly number[]): void {
    const { lanes, quarantine, dispatcher } = this.#parts;
    for (const shard of shards) lanes.close(shard);
    quarantine.lost(shards);
    dispatcher.abort((lane) => lane.isClosed);
  }

  /** Reads webhooks and work again of shards that stay owned after a failed hand-back: notifications were ignored meanwhile. */
  kept(shards: readonly number[]): void {
    const { lanes, discovery } = this.#parts;
    for (const lane of lanes.ofShards(shards)) this.#laneWork.reload(lane);
    discovery.scanShards(shards);
  }

  /** Resolves with the first of the shards whose deliveries are all recorded, while the owner takes no new work for them. */
  async drain(shards: readonly number[]): Promise<number[]> {
    const { lanes, quarantine, dispatcher } = this.#parts;
    quarantine.release(({ shard }) => shards.includes(shard));
    for (;;) {
      const empty = shards.filter((shard) =>
        [...lanes.ofShards([shard])].every((lane) => lane.deliveries.isFullyRecorded),
      );
      if (empty.length > 0) return empty;
      await dispatcher.completions.next();
    }
  }

  /** Returns whether results of the shard are not recorded yet. */
  isRecording(shard: number): boolean {
    return this.#parts.recorder.isRecording(shard);
  }
}
