/** Hands shards back: takes no new work for them and releases each once all its work is recorded. */
import type { Log } from '#core/log.ts';

export type HandBackDeps = {
  log: Log;
  /**
   * Takes no new work for the shards; resolves with those of which nothing is in memory any more, as soon as there are
   * any.
   */
  drain: (shards: readonly number[]) => Promise<number[]>;
  /** Called for shards that stay owned after a failed hand-back: notifications about them were ignored meanwhile. */
  onKept: (shards: number[]) => void;
  /** Returns whether results of the shard are not recorded yet. */
  isRecording: (shard: number) => boolean;
};

export class HandBack {
  readonly #deps: HandBackDeps & { release: (shards: number[]) => Promise<void>; onFinished: () => void };
  readonly #inProgress = new Set<number>();

  /**
   * `release` gives the shards up and then updates the table; `onFinished` is called when shards leave `inProgress`.
   */
  constructor(deps: HandBackDeps & { release: (shards: number[]) => Promise<void>; onFinished: () => void }) {
    this.#deps = deps;
  }

  get inProgress(): ReadonlySet<number> {
    return this.#inProgress;
  }

  /** Releases each shard as soon as it is empty, so that a slow receiver does not delay the other shards. */
  async start(shards: readonly number[]): Promise<void> {
    const { log, drain, release, onKept } = this.#deps;
    let remaining = [...shards];
    for (const shard of shards) this.#inProgress.add(shard);
    try {
      while (remaining.length > 0) {
        const empty = await drain(remaining);
        await release(empty);
        this.#finish(empty);
        remaining = remaining.filter((shard) => this.#inProgress.has(shard));
      }
    } catch (error) {
      log.warn({ err: error }, 'handing back shards failed');
      this.#finish(remaining);
      onKept(remaining);
    }
  }

  /** Removes shards that were released or that stay owned. */
  #finish(shards: readonly number[]): void {
    for (const shard of shards) this.#inProgress.delete(shard);
    this.#deps.onFinished();
  }
}
