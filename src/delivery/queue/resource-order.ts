/**
 * Keeps the attempts of one webhook about the same resource in order while its endpoint is fast. Attempts use several
 * connections, so of two that start together the later one may arrive first.
 */
import { setTimeout as wait } from 'node:timers/promises';

/** Longer than a fast endpoint needs. At a slow endpoint the next attempt starts after this time. */
const WAIT_MS = 1_000;

export type Position = {
  /** Resolves when the attempt may start; undefined if it may start at once. */
  readonly before: Promise<unknown> | undefined;
  /** To call when the attempt has ended or is cancelled. */
  readonly leave: () => void;
};

type Last = { before: Promise<unknown> | undefined; ended: Promise<void> };

export class ResourceOrder {
  readonly #last = new Map<string, Last>();

  /** Queues behind the attempts with the same key. */
  join(key: string): Position {
    const previous = this.#last.get(key);
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const before = previous && this.#follow(previous);
    const last = { before, ended };
    this.#last.set(key, last);
    const leave = (): void => {
      if (this.#last.get(key) === last) this.#last.delete(key);
      resolve();
    };
    return { before, leave };
  }

  async #follow({ before, ended }: Last): Promise<void> {
    await before;
    await Promise.race([ended, wait(WAIT_MS, undefined, { ref: false })]);
  }
}
