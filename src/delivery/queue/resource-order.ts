/**
 * Lets the exchanges of one webhook about one resource follow each other, where its endpoint is fast. They use several connections, so
 * the later of two that begin together may arrive first.
 */
import { setTimeout as wait } from 'node:timers/promises';

/** Longer than a fast endpoint takes. Of a slow one the next exchange begins so long after the one before. */
const WAIT_MS = 1_000;

export type Position = {
  /** Settles when the exchange may begin; undefined where it may at once. */
  readonly before: Promise<unknown> | undefined;
  /** The exchange has ended, or does not take place. */
  readonly leave: () => void;
};

type Last = { before: Promise<unknown> | undefined; ended: Promise<void> };

export class ResourceOrder {
  readonly #last = new Map<string, Last>();

  /** Takes the next place behind the exchanges with the same key. */
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
