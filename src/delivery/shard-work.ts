/** The work of the owned shards: begins when a shard is taken, and ends when it is lost or handed back. */
import type { Runtime } from '#runtime/runtime.ts';
import type { ShardEvents } from './leases/hand-back.ts';
import type { Quarantine } from './quarantine.ts';
import type { Discovery } from './queue/discovery.ts';
import type { Dispatcher } from './queue/dispatcher.ts';
import type { FetchRequests, Lanes } from './queue/lanes.ts';
import type { Recorder } from './record/record.ts';

type ShardParts = {
  lanes: Lanes;
  quarantine: Quarantine;
  recorder: Recorder;
  requests: FetchRequests;
  dispatcher: Dispatcher;
  discovery: Discovery;
};

export class ShardWork implements ShardEvents {
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  readonly #parts: ShardParts;
  #changedAtMs = 0;
  #changes = 0;

  constructor(runtime: Pick<Runtime, 'clock' | 'log'>, parts: ShardParts) {
    this.#runtime = runtime;
    this.#parts = parts;
  }

  /** Wall-clock time when notifications may last have been missed, or shards were taken. */
  get changedAtMs(): number {
    return this.#changedAtMs;
  }

  /** Rises at each of these times, and when shards are owned again. */
  get changes(): number {
    return this.#changes;
  }

  noteChange(): void {
    this.#changes += 1;
    this.#changedAtMs = this.#runtime.clock.now().getTime();
  }

  /** Loads the quarantine of taken shards, then their work. */
  gained(shards: readonly number[]): void {
    this.noteChange();
    void this.#begin(shards);
  }

  async #begin(shards: readonly number[]): Promise<void> {
    const { lanes, quarantine, dispatcher, discovery } = this.#parts;
    try {
      const ready = await quarantine.load(shards);
      // Lanes may have received work before the shard was ready, and polling does not return rows that are in memory already.
      dispatcher.send(lanes.ofShards(ready));
      discovery.scanShards(ready);
    } catch (error) {
      this.#runtime.log.error(
        { err: error, shards },
        'starting the work of shards failed; their webhooks are scanned again',
      );
      discovery.scanShards(shards);
    }
  }

  /** Aborts the exchanges of lost shards and discards their queues. */
  lost(shards: readonly number[]): void {
    const { lanes, quarantine, dispatcher } = this.#parts;
    for (const shard of shards) lanes.close(shard);
    quarantine.lost(shards);
    dispatcher.abort((lane) => lane.isClosed);
  }

  /** Notifications were ignored meanwhile. */
  kept(shards: readonly number[]): void {
    const { lanes, requests, discovery } = this.#parts;
    this.#changes += 1;
    for (const lane of lanes.ofShards(shards)) requests.reload(lane);
    discovery.scanShards(shards);
  }

  async drain(shards: readonly number[]): Promise<number[]> {
    const { lanes, quarantine, dispatcher } = this.#parts;
    dispatcher.send(quarantine.release(({ shard }) => shards.includes(shard)));
    for (;;) {
      const empty = shards.filter((shard) =>
        [...lanes.ofShards([shard])].every((lane) => lane.deliveries.isFullyRecorded),
      );
      if (empty.length > 0) return empty;
      await dispatcher.completions.next();
    }
  }

  isRecording(shard: number): boolean {
    return this.#parts.recorder.isRecording(shard);
  }
}
