/**
 * Lets the exchanges of one webhook about one resource follow each other, where its endpoint is fast. They use several connections, so
 * the later of two that begin together may arrive first.
 */
import { setTimeout as wait } from 'node:timers/promises';

/** Longer than a fast endpoint takes. A slow one gets the next delivery after this time, in whatever order. */
const WAIT_MS = 250;

export type Place = {
  /** Settles when the exchange before may be taken for delivered; undefined where there is none. */
  readonly before: Promise<unknown> | undefined;
  /** The exchange has ended, or does not take place. */
  readonly leave: () => void;
};

export class ResourceOrder {
  readonly #last = new Map<string, Promise<void>>();

  /** Takes the next place behind the exchanges with the same key. */
  join(key: string): Place {
    const previous = this.#last.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last.set(key, promise);
    const leave = (): void => {
      if (this.#last.get(key) === promise) this.#last.delete(key);
      resolve();
    };
    const before = previous && Promise.race([previous, wait(WAIT_MS, undefined, { ref: false })]);
    return { before, leave };
  }
}
