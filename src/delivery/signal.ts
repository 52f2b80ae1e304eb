/** Something that happens again and again, and can be waited for. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  fire(): void {
    if (this.#waiting.size === 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** Resolves when it happens next. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}
