/** What is kept of an answer, read within its limits. */
import { outcomeOfReply, type Outcome, type Reply } from './outcome.ts';

export type AnswerLimits = { answerReadBytes: number; answerKeptBytes: number };

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** What is kept is text: bytes that are not become U+FFFD, and PostgreSQL stores no NUL. */
export const textOf = (text: string, length: number): string =>
  (text.includes('\0') ? text.replaceAll('\0', '') : text).slice(0, length);

/** A line each. Most answers have two or three: a loop costs a third of what `Object.entries` and `join` do. */
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

  /** Takes what came of the body; answers whether enough was read. */
  add(chunk: Buffer): boolean {
    const { answerKeptBytes } = this.#limits;
    if (this.#readBytes < answerKeptBytes) this.#keep(chunk.subarray(0, answerKeptBytes - this.#readBytes));
    this.#readBytes += chunk.length;
    return this.#readBytes > this.#limits.answerReadBytes;
  }

  /**
   * Copied: a chunk is a view of all that was read with it, and 16 KiB may come byte by byte, with 64 KiB around each. A list
   * of the views held 1.6 MB an exchange, and with what is around them 1 GB.
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

  /** What an exchange with this answer has come to. */
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
