/** Collects the stored part of a response, within the limits. */
import { outcomeOfReply, type Outcome, type Reply } from './outcome.ts';

export type AnswerLimits = { answerReadBytes: number; answerKeptBytes: number };

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Returns storable text: PostgreSQL does not store NUL (invalid UTF-8 has become U+FFFD before). */
export const textOf = (text: string, length: number): string =>
  (text.includes('\0') ? text.replaceAll('\0', '') : text).slice(0, length);

/**
 * Returns one line per header. Most responses have two or three: a loop costs a third of `Object.entries` and `join`.
 */
const headerLines = (headers: AnswerHeaders): string => {
  let lines = '';
  for (const name in headers) {
    const value = headers[name];
    if (Array.isArray(value)) for (const one of value) lines += `${lines && '\n'}${name}: ${one}`;
    else lines += `${lines && '\n'}${name}: ${value ?? ''}`;
  }
  return lines;
};

export class Answer {
  readonly #code: number;
  readonly #headers: AnswerHeaders;
  readonly #limits: AnswerLimits;
  #kept: Buffer | undefined;
  #readBytes = 0;

  constructor(code: number, headers: AnswerHeaders, limits: AnswerLimits) {
    this.#code = code;
    this.#headers = headers;
    this.#limits = limits;
  }

  /** Adds a chunk of the body; returns whether the read limit is exceeded. */
  add(chunk: Buffer): boolean {
    const { answerKeptBytes } = this.#limits;
    if (this.#readBytes < answerKeptBytes) this.#keep(chunk.subarray(0, answerKeptBytes - this.#readBytes));
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
        const larger = Buffer.alloc(Math.min(2 * (keptBytes + part.length), this.#limits.answerKeptBytes));
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
    const bytes = this.#kept?.subarray(0, this.#readBytes);
    return {
      code: this.#code,
      headers: textOf(headerLines(this.#headers), answerKeptBytes),
      body: bytes === undefined ? '' : textOf(bytes.toString('utf8'), answerKeptBytes),
    };
  }
}
