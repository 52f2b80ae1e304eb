/**
 * Interim answers that nobody asked for: RFC 9110 §15.2 demands that a client understands each of them. undici passes over
 * all but 100, at which it destroys the socket, in its newer parser (Milo) too; a server that answers `Expect` on behalf of
 * a proxy, or always, would never get anything delivered.
 */

const LF = 0x0a;
const CR = 0x0d;
const ZERO = 0x30;
const ONE = 0x31;
const TWO = 0x32;

/** Where the digits of a status stand in `HTTP/1.1 100 Continue`. */
const HUNDREDS = 9;
const TENS = 10;
const UNITS = 11;

/**
 * Makes a 102 of each 100, in place: which one it was is nobody's concern, and so their number, their length and their
 * grammar stay in the hands of those who judge every 1xx. To cut them out needs a second parser, with limits of its own.
 */
export class Interim {
  #hasEnded = false;
  #isFinal = false;
  #isStatusLine = true;
  #column = 0;
  #hasNoTens = false;
  #lines = 0;

  /** A request is sent: what comes from now on are the heads of its answers, until one is not interim. */
  expect(): void {
    this.#hasEnded = false;
    this.#isFinal = false;
    this.#isStatusLine = true;
    this.#column = 0;
    this.#lines = 0;
  }

  /** Lines of the head that is under way, or of the last one. */
  get lines(): number {
    return this.#lines;
  }

  /** Takes what came, in pieces of any length; answers how many of its bytes belong to heads. */
  take(chunk: Buffer): number {
    if (this.#hasEnded) return 0;
    // A field of an object each byte is twice as slow.
    let column = this.#column;
    for (let index = 0; index < chunk.length; index += 1) {
      const byte = chunk[index];
      if (byte === LF) {
        this.#endLine(column);
        if (this.#hasEnded) return index + 1;
        column = 0;
      } else if (byte !== CR) {
        if (column <= UNITS && column >= HUNDREDS && this.#isStatusLine && this.#isUnitOf100(column, byte))
          chunk[index] = TWO;
        column += 1;
      }
    }
    this.#column = column;
    return chunk.length;
  }

  #isUnitOf100(column: number, byte: number | undefined): boolean {
    if (column === HUNDREDS) this.#isFinal = byte !== ONE;
    else if (column === TENS) this.#hasNoTens = byte === ZERO;
    return column === UNITS && !this.#isFinal && this.#hasNoTens && byte === ZERO;
  }

  /** An empty line ends a head; one before a status line is passed over (RFC 9112 §2.2). */
  #endLine(column: number): void {
    const isEmpty = column === 0;
    if (isEmpty && this.#isFinal) this.#hasEnded = true;
    if (this.#isStatusLine && !isEmpty) this.#lines = 0;
    this.#lines += 1;
    this.#isStatusLine = isEmpty;
  }
}
