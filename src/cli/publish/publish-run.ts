/** Publishes or loads the lines of an input with packages/publisher, and reports progress and result. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import type { Clock } from '#core/clock.ts';
import {
  openLoadPosition,
  type LoadPosition,
  type Position,
  createKeys,
  resourceOf,
  withKeys,
} from './publish-keys.ts';
import { countOf, whole } from '../doctor/check.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { openPublisher, type Outcome, type Task, type PublishTarget } from './publish-requests.ts';

// Opens the input: a file or stdin.

/** `name` is for messages. `bytes` is undefined for a pipe. */
type Input = { name: string; bytes: number | undefined; stream: Readable; position?: LoadPosition | undefined };

async function sizeOf(path: string, name: string): Promise<number | undefined> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new UserError(`${name} is a folder: name a file with one JSON object in each line`);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/** Opens the input; `stop` ends reading, also of an idle pipe. A file that is loaded is read from where an earlier load stopped. */
async function openInput(
  file: string,
  { task, terminal, target, clock }: PublishRun,
  stop: AbortSignal,
): Promise<Input> {
  if (file === '-') return { name: 'stdin', bytes: undefined, stream: addAbortSignal(stop, terminal.input()) };
  const path = resolve(terminal.cwd, file);
  const bytes = await sizeOf(path, file);
  const isLoad = task.command === 'load' && !task.isDryRun && bytes !== undefined;
  const position = isLoad ? await openLoadPosition(path, target, clock) : undefined;
  const stream = createReadStream(path, { start: position?.start?.endByte ?? 0 });
  return { name: file, bytes, position, stream: addAbortSignal(stop, stream) };
}

/** More than the limit of an event (256 KiB of JSON as Halcyon writes it; a file may escape more characters). */
const LINE_BYTES = 2 * 1024 * 1024;
const PROGRESS_MS = 100;
/** How often a warning is printed with its line; more lines are only counted. */
const SAME_WARNINGS = 5;
/** The limit of faults in the JSON output; stderr has all of them. */
const FAULTS_IN_JSON = 100;

type PublishRun = {
  task: Task;
  terminal: Terminal;
  target: PublishTarget;
  retryForSeconds: number;
  keepsGoing: boolean;
  clock: Clock;
  random: () => number;
};

type Refused = { line: number; messages: readonly string[] };

type PublishCounts = {
  /** Lines that are published or loaded by this run or an earlier one. */
  done: number;
  /** Versions among these that the server had already, or newer. */
  kept: number;
  /** The position in the input. */
  bytes: number;
  refused: number;
};

/** The words of a task. `sofar` says how much is done when it stops. */
type Words = {
  one: string;
  done: string;
  sofar: (amount: string, verb: string) => string;
  /** What may be done as well after an interruption. */
  inProgress: string;
  runAgain: string;
  /** The end of the summary. */
  remark: string;
};

const LOAD: Words = {
  one: 'resource',
  done: 'loaded',
  // Items of the same request after a refused one are loaded, too.
  sofar: (amount, verb) => `At least ${amount} ${verb} loaded`,
  inProgress: '',
  remark: '',
  runAgain: 'run the same command again; what is loaded is kept',
};

const WORDS = {
  publish: {
    one: 'event',
    done: 'published',
    sofar: (amount, verb) => `${amount} ${verb} published`,
    inProgress: ', and possibly the array in progress',
    remark: '',
    runAgain: 'run the same command again within 24 hours; published events are not published twice',
  },
  load: LOAD,
  dryRun: {
    ...LOAD,
    done: 'would be loaded',
    sofar: () => 'Nothing is written',
    remark: '; nothing is written',
    runAgain: 'run the same command again',
  },
} satisfies Record<string, Words>;

const wordsOf = (task: Task): Words => (task.command === 'load' && task.isDryRun ? WORDS.dryRun : WORDS[task.command]);

const amountOf = (count: number, { one }: Words): string => countOf(count, one);

/** Returns the error with a remedy; undefined if every line is published or loaded. */
function failureOf(thrown: unknown, counts: PublishCounts, signal: string | undefined, words: Words): unknown {
  const { runAgain } = words;
  const sofar = words.sofar(amountOf(counts.done, words), counts.done === 1 ? 'is' : 'are');
  if (signal !== undefined) {
    return new UserError(`${signal}: ${sofar}${words.inProgress}. To continue, ${runAgain}`, EXIT.interrupted);
  }
  if (thrown instanceof UserError && counts.done === 0) return thrown;
  if (thrown instanceof UserError)
    return new UserError(`${thrown.message}. ${sofar}. To continue, ${runAgain}`, thrown.exitCode);
  if (thrown !== undefined) return thrown;
  if (counts.refused === 0) return undefined;
  const correct = counts.refused === 1 ? 'was rejected. Correct it' : 'were rejected. Correct them';
  const lines = `${countOf(counts.refused, 'line')} ${correct}`;
  return new UserError(`${lines} and ${runAgain}`, EXIT.incomplete);
}

function summaryOf({ done, kept }: PublishCounts, seconds: number, words: Words): string {
  const rate = whole.format(Math.round(done / Math.max(seconds, 0.001)));
  const known = kept > 0 ? `, ${whole.format(kept)} kept,` : '';
  const time = `in ${seconds.toFixed(1)} s (${rate} a second)`;
  return `${amountOf(done - kept, words)} ${words.done}${known} ${time}${words.remark}`;
}

/** Calls `next` with each line of the input until it returns false. */
async function readLines({ stream, position }: Input, next: (line: Line) => Promise<boolean>): Promise<void> {
  for await (const lines of linesOf(stream, { limitBytes: LINE_BYTES, after: position?.start }))
    for (const line of lines) if (!(await next(line))) return;
}

/** Counts the results of lines, and prints them with the progress and the summary. */
function createReport({ task, terminal, clock }: PublishRun, input: Input) {
  const words = wordsOf(task);
  const counts: PublishCounts = { done: 0, kept: 0, bytes: 0, refused: 0 };
  const warnings = new Map<string, number>();
  const faults: Refused[] = [];
  const startedMs = clock.monotonicMs();
  const start = input.position?.start;
  const bytesBefore = start?.endByte ?? 0;
  const bytesTotal = input.bytes === undefined ? undefined : input.bytes - bytesBefore;
  const secondsNow = (): number => (clock.monotonicMs() - startedMs) / 1000;
  let shownMs = -Infinity;
  const warn = (text: string): void => {
    terminal.showProgress?.('');
    terminal.warn(text);
  };
  if (start !== undefined)
    warn(
      `${input.name}: an earlier load has finished ${whole.format(start.number)} lines; this one continues after them`,
    );
  return {
    counts,
    warn,
    refuse: (line: number, messages: readonly string[]): void => {
      counts.refused += 1;
      if (faults.length < FAULTS_IN_JSON) faults.push({ line, messages });
      for (const message of messages) warn(`${input.name}:${line}: ${message}`);
    },
    /** Prints the warnings of a line, and counts those that occur often. */
    warnOf: (line: number, messages: readonly string[]): void => {
      for (const message of messages) {
        const before = warnings.get(message) ?? 0;
        warnings.set(message, before + 1);
        if (before < SAME_WARNINGS) warn(`${input.name}:${line}: warning: ${message}`);
      }
    },
    advance: (bytes: number): void => {
      counts.bytes = bytes - bytesBefore;
      const nowMs = clock.monotonicMs();
      if (nowMs - shownMs < PROGRESS_MS) return;
      shownMs = nowMs;
      const done = { lines: counts.done, bytes: counts.bytes, seconds: secondsNow() };
      terminal.showProgress?.(progressLine(done, bytesTotal, `${words.one}s`));
    },
    end: (complete: boolean, hasFailed: boolean): void => {
      terminal.showProgress?.('');
      for (const [message, times] of warnings)
        if (times > SAME_WARNINGS) warn(`warning: ${message} (${whole.format(times)} lines)`);
      const { done, kept, refused } = counts;
      const seconds = Number(secondsNow().toFixed(3));
      const sent =
        task.command === 'publish' ? { published: done } : { loaded: done - kept, kept, dry_run: task.isDryRun };
      if (terminal.isJson === true) terminal.print(JSON.stringify({ complete, ...sent, refused, seconds, faults }));
      else if (done > 0 || !hasFailed) terminal.print(summaryOf(counts, seconds, words));
    },
  };
}

/** Publishes or loads a file, or stdin for `-`; throws a `UserError` unless this is done for every line of it. */
export async function publishInput(file: string, run: PublishRun): Promise<void> {
  const { task, terminal, target, keepsGoing } = run;
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
  const input = await openInput(file, run, stop.signal);
  const report = createReport(run, input);
  const { send, publisher } = openPublisher(target, { ...run, warn: report.warn, onGivenUp: end });
  stop.signal.addEventListener('abort', () => void publisher.close({ signal: stop.signal }));
  /** Handles the result of a line, after those of the lines before it. */
  const settle = ({ number, endByte }: Line, outcome: Outcome): void => {
    if (thrown !== undefined) return;
    if (outcome instanceof Error) {
      if (!stop.signal.aborted) end(outcome);
      return;
    }
    if ('isKept' in outcome) {
      report.counts.done += 1;
      if (outcome.isKept) report.counts.kept += 1;
      report.warnOf(number, outcome.warnings);
      // A refused line is read again, and the lines after it.
      if (report.counts.refused === 0) input.position?.reached({ number, endByte });
    } else {
      report.refuse(number, outcome);
      if (!keepsGoing) end(new UserError(`Stopped at line ${number}`, EXIT.failed));
    }
    report.advance(endByte);
  };
  const entryOf = task.command === 'load' ? resourceOf : withKeys(createKeys(target.clientSecret));
  let settled = Promise.resolve();
  /** Sends a line; returns whether the line after it may be sent. */
  const next = async (line: Line): Promise<boolean> => {
    const entry = 'fault' in line ? line : entryOf(line.text);
    const outcome = 'fault' in entry ? [entry.fault] : send(entry.text);
    settled = settled.then(async () => settle(line, await outcome));
    await publisher.ready();
    return !stop.signal.aborted && (keepsGoing || !('fault' in entry));
  };
  try {
    await readLines(input, next);
  } catch (error) {
    if (!stop.signal.aborted) end(error);
  } finally {
    input.stream.destroy();
  }
  await publisher.close({ signal: stop.signal });
  await settled;
  input.position?.end(thrown === undefined && signal === undefined);
  const failure = failureOf(thrown, report.counts, signal, wordsOf(task));
  report.end(thrown === undefined && signal === undefined, failure !== undefined);
  if (failure !== undefined) throw failure;
}

// Splits a stream into lines; buffers at most one line of at most `limitBytes`.

/** `endByte` is the end of the line in the file. `fault` is a message if the line cannot be read. */
export type Line = Position & ({ text: string } | { fault: string });

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

/** Yields for each chunk the lines that end in it. Blank lines are skipped, but counted in line numbers. `after`: where the stream begins. */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  { limitBytes, after = { number: 0, endByte: 0 } }: { limitBytes: number; after?: Position | undefined },
): AsyncGenerator<Line[]> {
  let [{ number, endByte }, sizeBytes] = [after, 0];
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
      ? { fault: `the line is longer than ${limitBytes} bytes, the limit for one line` }
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

// Formats the progress line.

export type Progress = { lines: number; bytes: number; seconds: number };

const two = (n: number): string => String(n).padStart(2, '0');

function span(seconds: number): string {
  const all = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(all / 3600), Math.floor(all / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

const BAR_WIDTH = 24;

/** Returns the progress line; `totalBytes` is undefined for a pipe. */
export function progressLine(
  { lines, bytes, seconds }: Progress,
  totalBytes: number | undefined,
  noun: string,
): string {
  const rate = `${whole.format(lines)} ${noun}  ${whole.format(seconds > 0 ? lines / seconds : 0)}/s`;
  if (totalBytes === undefined || totalBytes === 0) return `${rate}  ${span(seconds)}`;
  const part = Math.min(1, bytes / totalBytes);
  const full = Math.floor(part * BAR_WIDTH);
  const remaining = part > 0 ? `  ${span((seconds * (1 - part)) / part)} left` : '';
  return `[${'='.repeat(full)}${' '.repeat(BAR_WIDTH - full)}] ${Math.floor(part * 100)} %  ${rate}${remaining}`;
}
