/** A recurring event that can be awaited. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  fire(): void {
    if (this.#waiting.size === 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** Resolves at the next `fire`. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}
