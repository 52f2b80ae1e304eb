/**
 * Interim answers that nobody asked for: RFC 9110 §15.2 demands that a client understands each of them. undici passes over
 * all but 100, at which it destroys the socket, in its newer parser (Milo) too; a server that answers `Expect` on behalf of
 * a proxy, or always, would never get anything delivered.
 */
import type { Socket } from 'node:net';

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
  #isFinal = false;
  #isStatusLine = true;
  #column = 0;
  #hasNoTens = false;

  /** A request is sent: what comes from now on are the heads of its answers, until one is not interim. */
  expect(): void {
    this.#isFinal = false;
    this.#isStatusLine = true;
    this.#column = 0;
  }

  /** Takes what came, in pieces of any length. */
  take(chunk: Buffer): void {
    for (let index = 0; index < chunk.length && !this.#isFinal; index += 1) {
      const byte = chunk[index];
      if (byte === LF) this.#endLine();
      else if (byte !== CR) {
        if (this.#isStatusLine && this.#isUnitOf100(byte)) chunk[index] = TWO;
        this.#column += 1;
      }
    }
  }

  #isUnitOf100(byte: number | undefined): boolean {
    if (this.#column === HUNDREDS) this.#isFinal = byte !== ONE;
    else if (this.#column === TENS) this.#hasNoTens = byte === ZERO;
    return this.#column === UNITS && this.#hasNoTens && byte === ZERO;
  }

  /** An empty line ends a head; one before a status line is passed over (RFC 9112 §2.2). */
  #endLine(): void {
    this.#isStatusLine = this.#column === 0;
    this.#column = 0;
  }
}

/**
 * Stands between the socket and who reads it with `read()`: 0.1 µs of an exchange's 25 to 30. A stream between them would be
 * one more a connection.
 */
export const interimOf = (socket: Socket): Interim => {
  const interim = new Interim();
  const read: (size?: number) => Buffer | null = socket.read.bind(socket);
  socket.read = (size) => {
    const chunk = read(size);
    if (chunk !== null) interim.take(chunk);
    return chunk;
  };
  return interim;
};
