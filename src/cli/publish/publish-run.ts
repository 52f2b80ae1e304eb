/** Publishes the events of an input in batches, one after the other, so that the events of a resource keep their order. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { createHash, createHmac } from 'node:crypto';
import type { Clock } from '#core/clock.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { type Fault, type Send, createSend } from './publish-requests.ts';
import { type Entry, type Item, batchesOf } from './batches.ts';
import { linesOf } from './lines.ts';
import type { PublishTarget } from './publish-target.ts';
import { progressLine } from './progress.ts';

// Derives idempotency keys for events without one from their content and the number of earlier occurrences in the input. The same
// file has the same keys again, also after a line was corrected or removed, unlike keys from line numbers.

/** 16 MiB for any length of input. One of a million lines is a false positive. */
const BITS = 2 ** 27;
/** The counters take 16 MiB, however long the input is. */
const COUNTERS = 2 ** 22;
const PROBES = 4;

type Occurrences = (digest: Buffer) => number;

/** Returns a Bloom filter: whether a digest occurred before, without false negatives. */
function createBloomFilter(): (digest: Buffer) => boolean {
  const bits = new Uint8Array(BITS / 8);
  return (digest) => {
    let isKnown = true;
    for (let probe = 0; probe < PROBES; probe += 1) {
      const bit = digest.readUInt32LE(4 * probe) % BITS;
      const mask = 1 << (bit & 7);
      if (((bits[bit >>> 3] ?? 0) & mask) === 0) isKnown = false;
      bits[bit >>> 3] = (bits[bit >>> 3] ?? 0) | mask;
    }
    return isKnown;
  };
}

/** Returns a count-min sketch: the estimated number of a digest's occurrences, which rises with each one. */
function createCountMinSketch(): Occurrences {
  const counters = new Uint32Array(COUNTERS);
  return (digest) => {
    // Uses digest bytes that the filter does not use, so collisions of both are independent.
    const places = Array.from({ length: PROBES }, (_, probe) => digest.readUInt32LE(4 * (PROBES + probe)) % COUNTERS);
    const count = Math.min(...places.map((place) => counters[place] ?? 0));
    for (const place of places) counters[place] = (counters[place] ?? 0) + 1;
    return count + 1;
  };
}

/**
 * Returns how often a digest occurred before. A Map needs 100 bytes per line and ends at 16 million entries. The estimate may be
 * too high after collisions, but it is the same in every run of the same input and never repeats for a digest.
 *
 * A corrected line may change the keys of other lines: on average 0.003 of ten million distinct lines, 0.1 of twenty million,
 * 0.5 of forty million, 24 of a hundred million.
 */
function createOccurrences(): Occurrences {
  const isKnown = createBloomFilter();
  const numberOf = createCountMinSketch();
  return (digest) => (isKnown(digest) ? numberOf(digest) : 0);
}

/**
 * Returns a function that makes the keys of one input in its order, independent of white space in the JSON. The digest is keyed
 * with the client's secret: the server keeps keys for a day, also of erased events, and a plain digest could be guessed.
 */
export function createKeys(secret: string): (event: unknown) => string {
  const occurrencesOf = createOccurrences();
  const hmacKey = createHash('sha256').update(`halcyon publish\n${secret}`).digest();
  return (event) => {
    const digest = createHmac('sha256', hmacKey).update(JSON.stringify(event)).digest();
    return `hmac-${digest.toString('base64url')}.${occurrencesOf(digest)}`;
  };
}

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

type Refused = { line: number; messages: readonly string[] };

type PublishCounts = {
  /** Events that are published by this run or an earlier one. */
  published: number;
  /** The position in the input. */
  bytes: number;
  refused: number;
};

type RunDeps = {
  send: Send;
  keepsGoing: boolean;
  /** Called for each rejected line. */
  onRefused: (refused: Refused) => void;
  onProgress: () => void;
};

/** Returns the messages by entry; faults without an index are omitted, except for a single entry. */
function faultsByEntry(entries: readonly Entry[], faults: readonly Fault[]): Map<Entry, string[]> {
  const faulty = new Map<Entry, string[]>();
  for (const { at, message } of faults) {
    const entry = at === undefined && entries.length === 1 ? entries[0] : entries[at ?? -1];
    if (entry !== undefined) faulty.set(entry, [...(faulty.get(entry) ?? []), message]);
  }
  return faulty;
}

/**
 * Sends all items and updates `counts`. Throws at the first rejected line, after everything before it is published; with
 * `keepsGoing` it skips the line.
 */
async function sendAll(
  items: AsyncIterable<Item>,
  counts: PublishCounts,
  { send, keepsGoing, onRefused, onProgress }: RunDeps,
): Promise<void> {
  const reject = (line: number, messages: readonly string[]): void => {
    counts.refused += 1;
    onRefused({ line, messages });
    if (!keepsGoing) throw new UserError(`Stopped at line ${line}`, EXIT.failed);
  };
  /** Publishes an array. The server accepts it as a whole or not at all, so it is sent again without the faulty events. */
  const publish = async (entries: readonly Entry[]): Promise<void> => {
    if (entries.length === 0) return;
    const faults = await send(entries);
    if (faults === undefined) {
      counts.published += entries.length;
      return;
    }
    const faulty = faultsByEntry(entries, faults);
    const first = entries.findIndex((entry) => faulty.has(entry));
    if (first === -1) {
      // The faults name no event: split the array until it has one event.
      const half = Math.ceil(entries.length / 2);
      await publish(entries.slice(0, half));
      await publish(entries.slice(half));
      return;
    }
    if (!keepsGoing) await publish(entries.slice(0, first));
    for (const [{ line }, messages] of [...faulty].toSorted(([a], [b]) => a.line - b.line)) reject(line, messages);
    await publish(entries.filter((entry) => !faulty.has(entry)));
  };
  for await (const item of items) {
    if (item.kind === 'fault') reject(item.line, [item.message]);
    else await publish(item.entries);
    counts.bytes = item.endByte;
    onProgress();
  }
}

// Runs `publish` and reports progress and result.

/** More than the limit of an event (256 KiB of JSON as Halcyon writes it; a file may escape more characters). */
const LINE_BYTES = 2 * 1024 * 1024;
/**
 * Events per second with arrays of 500, 200 and 50, relative to arrays of 1,000: 0.97, 0.68, 0.44. The byte limit keeps arrays of
 * events with many members below the server's limit of commas in a body.
 */
const BATCH = { events: 500, bytes: 2 * 1024 * 1024 };
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

const whole = new Intl.NumberFormat('en');
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

/** Publishes a file, or stdin for `-`; throws a `UserError` unless every line of it is published. */
export async function publishInput(file: string, run: PublishRun): Promise<void> {
  const { terminal, clock } = run;
  const stop = new AbortController();
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => {
    signal = name;
    stop.abort();
  });
  const input = await openInput(file, terminal, stop.signal);
  const counts: PublishCounts = { published: 0, bytes: 0, refused: 0 };
  const faults: Refused[] = [];
  const startedMs = clock.monotonicMs();
  const secondsNow = (): number => (clock.monotonicMs() - startedMs) / 1000;
  let shownMs = -Infinity;
  const onProgress = (): void => {
    const nowMs = clock.monotonicMs();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    const done = { events: counts.published, bytes: counts.bytes, seconds: secondsNow() };
    terminal.showProgress?.(progressLine(done, input.bytes));
  };
  const warn = (text: string): void => {
    terminal.showProgress?.('');
    terminal.warn(text);
  };
  const onRefused = (refused: Refused): void => {
    if (faults.length < FAULTS_IN_JSON) faults.push(refused);
    for (const message of refused.messages) warn(`${input.name}:${refused.line}: ${message}`);
  };
  const { retryForSeconds, random, target, keepsGoing } = run;
  const send = createSend(target, { retryForSeconds, clock, random, stop: stop.signal, warn });
  const items = batchesOf(linesOf(input.stream, { limitBytes: LINE_BYTES }), BATCH, createKeys(target.clientSecret));
  let thrown: unknown;
  try {
    await sendAll(items, counts, { send, keepsGoing, onRefused, onProgress });
  } catch (error) {
    thrown = error;
  } finally {
    input.stream.destroy();
  }
  const failure = failureOf(thrown, counts, signal);
  terminal.showProgress?.('');
  const seconds = Number(secondsNow().toFixed(3));
  const { published, refused } = counts;
  if (run.isJson) {
    const complete = thrown === undefined && signal === undefined;
    terminal.print(JSON.stringify({ complete, published, refused, seconds, faults }));
  } else if (published > 0 || failure === undefined) {
    const rate = whole.format(Math.round(published / Math.max(seconds, 0.001)));
    terminal.print(`${eventsOf(published)} published in ${seconds.toFixed(1)} s (${rate} a second)`);
  }
  if (failure !== undefined) throw failure;
}
