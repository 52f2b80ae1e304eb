/** Shards on their way back: nothing new is begun for them, and each goes as soon as nothing of it is outside the table. */
import type { Log } from '#core/log.ts';

export type HandBackDeps = {
  log: Log;
  /** Take no new work for the shards; resolves, with those, when there are any of which nothing is outside the table. */
  drain: (shards: readonly number[]) => Promise<number[]>;
  /** They were to be handed back, and are not: what was not heeded of them meanwhile has to be looked up. */
  onKept: (shards: number[]) => void;
  /** Whether outcomes of the shard are not recorded yet. */
  isRecording: (shard: number) => boolean;
};

export class HandBack {
  readonly #deps: HandBackDeps & { release: (shards: number[]) => Promise<void>; onFinished: () => void };
  readonly #inProgress = new Set<number>();

  /** `release` gives them up, then tells the table; `onFinished`: some are not on their way any more. */
  constructor(deps: HandBackDeps & { release: (shards: number[]) => Promise<void>; onFinished: () => void }) {
    this.#deps = deps;
  }

  get inProgress(): ReadonlySet<number> {
    return this.#inProgress;
  }

  /** Each as soon as it is empty: one whose receiver takes its time keeps no other from its new owner. */
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
      log.warn({ err: error }, 'shards could not be handed back');
      this.#finish(remaining);
      onKept(remaining);
    }
  }

  /** These are not on their way back any more: gone, or ours again. */
  #finish(shards: readonly number[]): void {
    for (const shard of shards) this.#inProgress.delete(shard);
    this.#deps.onFinished();
  }
}
