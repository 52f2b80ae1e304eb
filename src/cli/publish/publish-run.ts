/** Publishes the events of an input with the publisher of packages/publisher, and reports progress and result. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import type { Clock } from '#core/clock.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { createKeys, entryOf } from './publish-keys.ts';
import { openPublisher, type Outcome } from './publish-requests.ts';
import type { PublishTarget } from './publish-target.ts';

// Opens the input: a file or stdin.

/** `name` is for messages. `bytes` is undefined for a pipe. */
type Input = { name: string; bytes: number | undefined; stream: Readable };

async function sizeOf(path: string, name: string): Promise<number | undefined> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new UserError(`${name} is a folder: name a file with one event in each line`);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/** Opens the input; `stop` ends reading, also of an idle pipe. */
async function openInput(file: string, terminal: Terminal, stop: AbortSignal): Promise<Input> {
  if (file === '-') return { name: 'stdin', bytes: undefined, stream: addAbortSignal(stop, terminal.input()) };
  const path = resolve(terminal.cwd, file);
  const bytes = await sizeOf(path, file);
  return { name: file, bytes, stream: addAbortSignal(stop, createReadStream(path)) };
}

/** More than the limit of an event (256 KiB of JSON as Halcyon writes it; a file may escape more characters). */
const LINE_BYTES = 2 * 1024 * 1024;
const PROGRESS_MS = 100;
/** The limit of faults in the JSON output; stderr has all of them. */
const FAULTS_IN_JSON = 100;

type PublishRun = {
  terminal: Terminal;
  target: PublishTarget;
  retryForSeconds: number;
  keepsGoing: boolean;
  isJson: boolean;
  clock: Clock;
  random: () => number;
};

type Refused = { line: number; messages: readonly string[] };

type PublishCounts = {
  /** Events that are published by this run or an earlier one. */
  published: number;
  /** The position in the input. */
  bytes: number;
  refused: number;
};

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const eventsOf = (count: number): string => `${whole.format(count)} ${count === 1 ? 'event' : 'events'}`;

const RUN_AGAIN = 'run the same command again within 24 hours; published events are not published twice';

/** Returns the error with a remedy; undefined if every line is published. */
function failureOf(thrown: unknown, counts: PublishCounts, signal: string | undefined): unknown {
  const sofar = `${eventsOf(counts.published)} ${counts.published === 1 ? 'is' : 'are'} published`;
  if (signal !== undefined) {
    return new UserError(
      `${signal}: ${sofar}, and possibly the array in progress. To continue, ${RUN_AGAIN}`,
      EXIT.interrupted,
    );
  }
  if (thrown instanceof UserError && counts.published === 0) return thrown;
  if (thrown instanceof UserError)
    return new UserError(`${thrown.message}. ${sofar}. To continue, ${RUN_AGAIN}`, thrown.exitCode);
  if (thrown !== undefined) return thrown;
  if (counts.refused === 0) return undefined;
  const lines =
    counts.refused === 1
      ? '1 line was rejected. Correct it'
      : `${whole.format(counts.refused)} lines were rejected. Correct them`;
  return new UserError(`${lines} and ${RUN_AGAIN}`, EXIT.incomplete);
}

function summaryOf(published: number, seconds: number): string {
  const rate = whole.format(Math.round(published / Math.max(seconds, 0.001)));
  return `${eventsOf(published)} published in ${seconds.toFixed(1)} s (${rate} a second)`;
}

/** Calls `next` with each line of the input until it returns false. */
async function readLines(stream: Readable, next: (line: Line) => Promise<boolean>): Promise<void> {
  for await (const lines of linesOf(stream, { limitBytes: LINE_BYTES }))
    for (const line of lines) if (!(await next(line))) return;
}

/** Counts the results of lines, and prints them with the progress and the summary. */
function createReport({ terminal, clock, isJson }: PublishRun, input: Input) {
  const counts: PublishCounts = { published: 0, bytes: 0, refused: 0 };
  const faults: Refused[] = [];
  const startedMs = clock.monotonicMs();
  const secondsNow = (): number => (clock.monotonicMs() - startedMs) / 1000;
  let shownMs = -Infinity;
  const warn = (text: string): void => {
    terminal.showProgress?.('');
    terminal.warn(text);
  };
  return {
    counts,
    warn,
    refuse: (line: number, messages: readonly string[]): void => {
      counts.refused += 1;
      if (faults.length < FAULTS_IN_JSON) faults.push({ line, messages });
      for (const message of messages) warn(`${input.name}:${line}: ${message}`);
    },
    advance: (bytes: number): void => {
      counts.bytes = bytes;
      const nowMs = clock.monotonicMs();
      if (nowMs - shownMs < PROGRESS_MS) return;
      shownMs = nowMs;
      const done = { events: counts.published, bytes, seconds: secondsNow() };
      terminal.showProgress?.(progressLine(done, input.bytes));
    },
    end: (complete: boolean, hasFailed: boolean): void => {
      terminal.showProgress?.('');
      const { published, refused } = counts;
      const seconds = Number(secondsNow().toFixed(3));
      if (isJson) terminal.print(JSON.stringify({ complete, published, refused, seconds, faults }));
      else if (published > 0 || !hasFailed) terminal.print(summaryOf(published, seconds));
    },
  };
}

/** Publishes a file, or stdin for `-`; throws a `UserError` unless every line of it is published. */
export async function publishInput(file: string, run: PublishRun): Promise<void> {
  const { terminal, target, keepsGoing } = run;
  const stop = new AbortController();
  let signal: string | undefined;
  let thrown: unknown;
  const end = (error: unknown): void => {
    thrown ??= error;
    stop.abort();
  };
  void terminal.untilStopSignal().then((name) => {
    signal = name;
    stop.abort();
  });
  const input = await openInput(file, terminal, stop.signal);
  const report = createReport(run, input);
  const { publish, publisher } = openPublisher(target, { ...run, warn: report.warn, onGivenUp: end });
  stop.signal.addEventListener('abort', () => void publisher.close({ signal: stop.signal }));
  /** Handles the result of a line, after those of the lines before it. */
  const settle = ({ number, endByte }: Line, outcome: Outcome): void => {
    if (thrown !== undefined) return;
    if (outcome instanceof Error) {
      if (!stop.signal.aborted) end(outcome);
      return;
    }
    if (outcome === undefined) report.counts.published += 1;
    else {
      report.refuse(number, outcome);
      if (!keepsGoing) end(new UserError(`Stopped at line ${number}`, EXIT.failed));
    }
    report.advance(endByte);
  };
  const keyOf = createKeys(target.clientSecret);
  let settled = Promise.resolve();
  /** Publishes a line; returns whether the line after it may be published. */
  const next = async (line: Line): Promise<boolean> => {
    const entry = 'fault' in line ? line : entryOf(line.text, keyOf);
    const outcome = 'fault' in entry ? [entry.fault] : publish(entry.text);
    settled = settled.then(async () => settle(line, await outcome));
    await publisher.ready();
    return !stop.signal.aborted && (keepsGoing || !('fault' in entry));
  };
  try {
    await readLines(input.stream, next);
  } catch (error) {
    if (!stop.signal.aborted) end(error);
  } finally {
    input.stream.destroy();
  }
  await publisher.close({ signal: stop.signal });
  await settled;
  const failure = failureOf(thrown, report.counts, signal);
  report.end(thrown === undefined && signal === undefined, failure !== undefined);
  if (failure !== undefined) throw failure;
}

// Splits a stream into lines; buffers at most one line of at most `limitBytes`.

/** `endByte` is the end of the line in the stream. `fault` is a message if the line cannot be read. */
export type Line = { number: number; endByte: number } & ({ text: string } | { fault: string });

const LINE_END = 0x0a;
/** Fatal, because replacement characters would be published. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

function read(bytes: Buffer): { text: string } | { fault: string } {
  try {
    return { text: utf8.decode(bytes).trim() };
  } catch {
    return { fault: 'the line is not UTF-8: write the file in that encoding' };
  }
}

/** Yields for each chunk the lines that end in it. Blank lines are skipped, but counted in line numbers. */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  { limitBytes }: { limitBytes: number },
): AsyncGenerator<Line[]> {
  let [number, endByte, sizeBytes] = [0, 0, 0];
  let parts: Uint8Array[] = [];
  const add = (bytes: Uint8Array): void => {
    sizeBytes += bytes.length;
    endByte += bytes.length;
    if (sizeBytes <= limitBytes) parts.push(bytes);
    else parts = [];
  };
  const end = (): Line[] => {
    const isTooLong = sizeBytes > limitBytes;
    const content = isTooLong
      ? { fault: `the line is longer than ${limitBytes} bytes, the limit for one event` }
      : read(Buffer.concat(parts));
    [number, sizeBytes, parts] = [number + 1, 0, []];
    return 'text' in content && content.text === '' ? [] : [{ number, endByte, ...content }];
  };
  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let from = 0;
    for (let at = chunk.indexOf(LINE_END); at !== -1; at = chunk.indexOf(LINE_END, from)) {
      add(chunk.subarray(from, at));
      endByte += 1;
      from = at + 1;
      lines.push(...end());
    }
    add(chunk.subarray(from));
    yield lines;
  }
  if (sizeBytes > 0) yield end();
}

// Formats the progress line of `publish`.

export type Done = { events: number; bytes: number; seconds: number };

const two = (n: number): string => String(n).padStart(2, '0');

function span(seconds: number): string {
  const all = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(all / 3600), Math.floor(all / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

const BAR_WIDTH = 24;

/** Returns the progress line; `totalBytes` is undefined for a pipe. */
export function progressLine({ events, bytes, seconds }: Done, totalBytes: number | undefined): string {
  const rate = `${whole.format(events)} events  ${whole.format(seconds > 0 ? events / seconds : 0)}/s`;
  if (totalBytes === undefined || totalBytes === 0) return `${rate}  ${span(seconds)}`;
  const part = Math.min(1, bytes / totalBytes);
  const full = Math.floor(part * BAR_WIDTH);
  const remaining = part > 0 ? `  ${span((seconds * (1 - part)) / part)} left` : '';
  return `[${'='.repeat(full)}${' '.repeat(BAR_WIDTH - full)}] ${Math.floor(part * 100)} %  ${rate}${remaining}`;
}
