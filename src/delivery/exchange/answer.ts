/** What is kept of an answer, read within its limits. */
import { outcomeOfReply, type Outcome, type Reply } from './outcome.ts';

export type AnswerLimits = { answerReadBytes: number; answerKeptBytes: number };

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** What is kept is text: bytes that are not become U+FFFD, and PostgreSQL stores no NUL. */
const textOf = (text: string, length: number): string =>
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
  readonly #kept: Buffer[] = [];
  #readBytes = 0;

  constructor(code: number, headers: AnswerHeaders, limits: AnswerLimits) {
    this.#code = code;
    this.#headers = headers;
    this.#limits = limits;
  }

  /** Takes what came of the body; answers whether enough was read. */
  add(chunk: Buffer): boolean {
    if (this.#readBytes < this.#limits.answerKeptBytes) this.#kept.push(chunk);
    this.#readBytes += chunk.length;
    return this.#readBytes > this.#limits.answerReadBytes;
  }

  /** What an exchange with this answer has come to. */
  outcome(now: Date): Outcome {
    const after = this.#headers['retry-after'];
    return outcomeOfReply(this.#reply(), Array.isArray(after) ? after[0] : after, now);
  }

  #reply(): Reply {
    const { answerKeptBytes } = this.#limits;
    const bytes = this.#kept.length === 0 ? undefined : Buffer.concat(this.#kept).subarray(0, answerKeptBytes);
    return {
      code: this.#code,
      headers: textOf(headerLines(this.#headers), answerKeptBytes),
      body: bytes === undefined ? '' : textOf(bytes.toString('utf8'), answerKeptBytes),
    };
  }
}
