/**
 * A map that forgets what was put into it longest ago, a half at a time: when the younger half is full it becomes the older
 * one, whose place it takes. What a delivery carries is used within moments, so that who was used last need not be known:
 * `lru-cache` took 4.6 of the 115 µs that a delivery took, two maps take 0.6.
 */
export class Generations<Value> {
  readonly #halfBytes: number;
  readonly #bytesOf: (value: Value) => number;
  #young = new Map<number, Value>();
  #old = new Map<number, Value>();
  #youngBytes = 0;

  /** Holds at most `maxBytes`, as `bytesOf` counts them; what is larger than half of that alone is not kept. */
  constructor(maxBytes: number, bytesOf: (value: Value) => number) {
    this.#halfBytes = maxBytes / 2;
    this.#bytesOf = bytesOf;
  }

  get(key: number): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  has(key: number): boolean {
    return this.#young.has(key) || this.#old.has(key);
  }

  /** Under a key that it does not have yet. */
  add(key: number, value: Value): void {
    const bytes = this.#bytesOf(value);
    if (bytes > this.#halfBytes) return;
    if (this.#youngBytes + bytes > this.#halfBytes) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#youngBytes = 0;
    }
    this.#youngBytes += bytes;
    this.#young.set(key, value);
  }

  /** Its bytes stay counted until its half is given up, which is early by so much and never late. */
  delete(key: number): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  keys(): number[] {
    return [...this.#young.keys(), ...this.#old.keys()];
  }
}
