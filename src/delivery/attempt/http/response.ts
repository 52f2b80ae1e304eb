/** Reads the response of an exchange within limits: the received bytes, interim responses, and the part that is stored. */
import type { Socket } from 'node:net';
import { masked, type Mask } from '../delivery-target.ts';
import { AnswerTooLong, HeadTooLarge, outcomeOfReply, type Outcome, type Reply } from './attempt-outcome.ts';

const LF = 0x0a;
const CR = 0x0d;
const ZERO = 0x30;
const ONE = 0x31;
const TWO = 0x32;

/** Columns of the status digits in `HTTP/1.1 100 Continue`. */
const HUNDREDS = 9;
const TENS = 10;
const UNITS = 11;

/**
 * Handles unrequested 100 responses, which RFC 9110 §15.2 requires a client to accept. undici ignores all other 1xx but
 * destroys the socket at a 100, in its newer parser (Milo) too; an endpoint that always sends one, such as for a
 * proxy's `Expect`, would never receive a delivery.
 *
 * Rewrites each 100 to 102 in place. Their number, length and syntax stay subject to the checks of every 1xx; removing
 * them would need a second parser with limits of its own.
 */
export class Interim {
  #hasEnded = false;
  #isFinal = false;
  #isStatusLine = true;
  #column = 0;
  #hasNoTens = false;
  #lines = 0;

  /** Resets the state when a request is sent; header sections follow until the final one. */
  expect(): void {
    this.#hasEnded = false;
    this.#isFinal = false;
    this.#isStatusLine = true;
    this.#column = 0;
    this.#lines = 0;
  }

  /** Lines of the current or last header section. */
  get lines(): number {
    return this.#lines;
  }

  /** Processes a received chunk of any length; returns how many of its bytes belong to header sections. */
  take(chunk: Buffer): number {
    if (this.#hasEnded) return 0;
    // A local variable: a field per byte is twice as slow.
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

  /** An empty line ends a header section; before a status line it is skipped (RFC 9112 §2.2). */
  #endLine(column: number): void {
    const isEmpty = column === 0;
    if (isEmpty && this.#isFinal) this.#hasEnded = true;
    if (this.#isStatusLine && !isEmpty) this.#lines = 0;
    this.#lines += 1;
    this.#isStatusLine = isEmpty;
  }
}

/** Limit of all header sections of one response: 32 interim ones and the final one, 16 KiB each plus overhead. */
const HEADS_BYTES = 33 * 20 * 1024;
/** Servers send ten to thirty, and Apache accepts 100 from a client. */
const HEAD_LINES = 256;
/** `1\r\na\r\n`: a chunk of one byte. */
const WIRE_BYTES_PER_BODY_BYTE = 6;
/** Limit of other framing: the last chunk, trailers, extensions. */
const FRAMING_BYTES = 4 * 1024;

/**
 * Counts the bytes that a connection receives for one exchange, before undici parses them. undici only limits names and values
 * of fields: empty lines before a response, an endless reason phrase, chunk extensions and a flood on an idle connection would
 * keep a core busy for the whole exchange, and 16,000 fields without a value take 3 MB.
 */
export class Intake {
  readonly #interim = new Interim();
  #headsBytes = 0;
  #wireBytes = 0;
  #bodyBytes = 0;

  /** Resets the counters when a request is sent. */
  expect(): void {
    this.#headsBytes = 0;
    this.#wireBytes = 0;
    this.#bodyBytes = 0;
    this.#interim.expect();
  }

  /** Counts received bytes, in chunks of any length. */
  take(chunk: Buffer): void {
    const ofHeads = this.#interim.take(chunk);
    this.#headsBytes += ofHeads;
    this.#wireBytes += chunk.length - ofHeads;
  }

  /** Returns whether anything was received since `expect`. */
  get hasReceived(): boolean {
    return this.#headsBytes + this.#wireBytes > 0;
  }

  /** Counts received bytes that belong to the response's body. */
  countBody(bytes: number): void {
    this.#bodyBytes += bytes;
  }

  /** Returns the error if the header sections exceed their limits; checked before they are parsed. */
  get headFault(): Error | undefined {
    const isTooMuch = this.#interim.lines > HEAD_LINES || this.#headsBytes > HEADS_BYTES;
    return isTooMuch ? new HeadTooLarge(`more than ${HEAD_LINES} lines, or ${HEADS_BYTES} bytes in all`) : undefined;
  }

  /** Returns the error if the framing exceeds its limit; checked after the bytes were parsed. */
  get bodyFault(): Error | undefined {
    const framingBytes = this.#wireBytes - WIRE_BYTES_PER_BODY_BYTE * this.#bodyBytes;
    return framingBytes > FRAMING_BYTES ? new AnswerTooLong('much beside the body') : undefined;
  }
}

/**
 * Intercepts `read()` of the socket: 0.4 µs of an exchange's 25 to 30. A stream in between would add one per
 * connection.
 */
export function intakeOf(socket: Socket): Intake {
  const intake = new Intake();
  const read: (size?: number) => Buffer | null = socket.read.bind(socket);
  socket.read = (size) => {
    let fault = intake.bodyFault;
    const chunk = fault === undefined ? read(size) : null;
    if (chunk !== null) {
      intake.take(chunk);
      fault = intake.headFault;
    }
    if (fault === undefined) return chunk;
    socket.destroy(fault);
    return null;
  };
  return intake;
}

export type AnswerLimits = { answerReadBytes: number; answerKeptBytes: number };

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/**
 * Returns the first `length` characters as storable text: without the secrets of `mask`, and without NUL, which PostgreSQL does not
 * store (invalid UTF-8 has become U+FFFD before).
 */
export function textOf(text: string, length: number, mask: Mask | undefined): string {
  const storable = text.includes('\0') ? text.replaceAll('\0', '') : text;
  return mask === undefined ? storable.slice(0, length) : masked(storable, mask, length);
}

/**
 * Returns one line per header. Most responses have two or three: a loop costs a third of `Object.entries` and `join`.
 */
function headerLines(headers: AnswerHeaders): string {
  let lines = '';
  for (const name in headers) {
    const value = headers[name];
    if (Array.isArray(value)) for (const one of value) lines += `${lines && '\n'}${name}: ${one}`;
    else lines += `${lines && '\n'}${name}: ${value ?? ''}`;
  }
  return lines;
}

/** Collects the stored part of a response, within the limits. */
export class Answer {
  readonly #code: number;
  readonly #headers: AnswerHeaders;
  readonly #limits: AnswerLimits;
  readonly #mask: Mask | undefined;
  /** More than is stored, so that a secret is recognised of which only a part would be stored. */
  readonly #keptBytesMax: number;
  #kept: Buffer | undefined;
  #readBytes = 0;

  constructor(code: number, headers: AnswerHeaders, limits: AnswerLimits, mask: Mask | undefined) {
    this.#code = code;
    this.#headers = headers;
    this.#limits = limits;
    this.#mask = mask;
    this.#keptBytesMax = limits.answerKeptBytes + (mask?.bytesMax ?? 0);
  }

  /** Adds a chunk of the body; returns whether the read limit is exceeded. */
  add(chunk: Buffer): boolean {
    const unusedBytes = this.#keptBytesMax - this.#readBytes;
    if (unusedBytes > 0) this.#keep(chunk.subarray(0, unusedBytes));
    this.#readBytes += chunk.length;
    return this.#readBytes > this.#limits.answerReadBytes;
  }

  /**
   * Copies the chunk, because it is a view of a 64 KiB buffer, and 16 KiB may arrive byte by byte. A list of views took
   * 1.6 MB per exchange, and 1 GB with their buffers.
   */
  #keep(part: Buffer): void {
    const keptBytes = this.#readBytes;
    if (this.#kept === undefined) this.#kept = Buffer.from(part);
    else {
      if (keptBytes + part.length > this.#kept.length) {
        const larger = Buffer.alloc(Math.min(2 * (keptBytes + part.length), this.#keptBytesMax));
        this.#kept.copy(larger);
        this.#kept = larger;
      }
      part.copy(this.#kept, keptBytes);
    }
  }

  /** Returns the outcome of an exchange with this response. */
  outcome(now: Date): Outcome {
    const after = this.#headers['retry-after'];
    return outcomeOfReply(this.#reply(), Array.isArray(after) ? after[0] : after, now);
  }

  #reply(): Reply {
    const { answerKeptBytes } = this.#limits;
    return {
      code: this.#code,
      headers: textOf(headerLines(this.#headers), answerKeptBytes, this.#mask),
      body: this.#body(),
    };
  }

  #body(): string {
    const { answerKeptBytes } = this.#limits;
    const bytes = this.#kept?.subarray(0, this.#readBytes);
    if (bytes === undefined) return '';
    const kept = textOf(bytes.toString('utf8', 0, answerKeptBytes), answerKeptBytes, undefined);
    if (this.#mask === undefined) return kept;
    return textOf(bytes.toString('utf8'), kept.length, this.#mask);
  }
}
