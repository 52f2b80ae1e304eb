/** Hands shards back to the table, each when its deliveries are recorded. */
import type { Log } from '#core/log.ts';

/** The work of the owned shards, which follows their changes. */
export type ShardEvents = {
  /** Begins the work of taken shards. */
  gained: (shards: readonly number[]) => void;
  /** Ends all work of the shards at once. */
  lost: (shards: readonly number[]) => void;
  /** Reads webhooks and work again of shards that stay owned after a failed hand-back. */
  kept: (shards: readonly number[]) => void;
  /** Resolves with the first of the shards whose deliveries are all recorded, while the owner takes no new work for them. */
  drain: (shards: readonly number[]) => Promise<number[]>;
  /** Returns whether results of the shard are not recorded yet. */
  isRecording: (shard: number) => boolean;
};

type HandBackDeps = {
  log: Log;
  /** Gives the shards up and then updates the table. */
  release: (shards: number[]) => Promise<void>;
  /** Called when shards leave `inProgress`. */
  onFinished: () => void;
};

/** Hands shards back: takes no new work for them and releases each once all its work is recorded. */
export class HandBack {
  readonly #deps: HandBackDeps;
  readonly #inProgress = new Set<number>();

  constructor(deps: HandBackDeps) {
    this.#deps = deps;
  }

  get inProgress(): ReadonlySet<number> {
    return this.#inProgress;
  }

  /** Releases each shard as soon as it is empty, so that a slow receiver does not delay the other shards. */
  async start(shards: readonly number[], work: Pick<ShardEvents, 'drain' | 'kept'>): Promise<void> {
    const { log, release } = this.#deps;
    let remaining = [...shards];
    for (const shard of shards) this.#inProgress.add(shard);
    try {
      while (remaining.length > 0) {
        const empty = await work.drain(remaining);
        await release(empty);
        this.#finish(empty);
        remaining = remaining.filter((shard) => this.#inProgress.has(shard));
      }
    } catch (error) {
      log.warn({ err: error }, 'handing back shards failed');
      this.#finish(remaining);
      work.kept(remaining);
    }
  }

  /** Removes shards that were released or that stay owned. */
  #finish(shards: readonly number[]): void {
    for (const shard of shards) this.#inProgress.delete(shard);
    this.#deps.onFinished();
  }
}
