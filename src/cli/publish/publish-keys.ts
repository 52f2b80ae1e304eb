/**
 * Reads the lines of the input of `halcyon publish` as events with idempotency keys; and how far a file is loaded by `halcyon load`, in a file
 * beside it, so that an interrupted load continues there, also after a `kill -9`. That is for one version of the file, one server and one
 * store, and is removed when the file is loaded.
 */
import { createHash, createHmac } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import { parseExact } from '#core/exact-number.ts';
import type { Clock } from '#core/clock.ts';
import type { PublishTarget } from './publish-requests.ts';

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

// Reads a line.

/** One event as JSON text that contains its idempotency key, or why the line has none. */
type Entry = { text: string } | { fault: string };

const NAME = 'idempotency_key';

const addKey = (text: string, event: object, key: string): string =>
  `${text.slice(0, -1)}${Object.keys(event).length > 0 ? ',' : ''}"${NAME}":"${key}"}`;

/** Replaces a `null` or `""`, which names no key, instead of adding a duplicate member. */
function replaceKey(text: string, key: string): string {
  const tree = parseTree(text);
  const none = tree === undefined ? undefined : findNodeAtLocation(tree, [NAME]);
  return none === undefined ? text : `${text.slice(0, none.offset)}"${key}"${text.slice(none.offset + none.length)}`;
}

const IS_ARRAY =
  'the line begins a JSON array: write each of its items as one line, as jq -c ".[]" does, and use these lines';

const EVENT = { what: 'an event', example: '{"event": "transaction/created", "resource": {…}}' };
const RESOURCE = { what: 'a resource with its type', example: '{"type": "transaction", "resource": {…}}' };

/** Returns the object of a line, or a message; `what` is what the line must be. */
function objectOf(
  text: string,
  { what, example }: { what: string; example: string },
): { value: object } | { fault: string } {
  if (text.startsWith('[')) return { fault: IS_ARRAY };
  let value: unknown;
  try {
    value = parseExact(text);
  } catch (error) {
    return { fault: `the line is not JSON (${(error as Error).message}): write one object as one line` };
  }
  return typeof value === 'object' && value !== null
    ? { value }
    : { fault: `the line is not ${what}: write ${example}` };
}

/** Returns the function that reads a line with an event. The text is unchanged but for its key, so that the server validates the original. */
export function withKeys(keyOf: (event: unknown) => string): (text: string) => Entry {
  return (text) => {
    const read = objectOf(text, EVENT);
    if ('fault' in read) return read;
    const { [NAME]: ownKey, ...content } = read.value as { [NAME]?: unknown };
    if (ownKey !== undefined && ownKey !== null && ownKey !== '') return { text };
    const key = keyOf(content);
    return { text: ownKey === undefined ? addKey(text, content, key) : replaceKey(text, key) };
  };
}

/** Reads a line with a version of a resource, which needs no key: what is loaded twice is kept. */
export function resourceOf(text: string): Entry {
  const read = objectOf(text, RESOURCE);
  return 'fault' in read ? read : { text };
}

/** The end of a line: its number, and how many bytes of the file it ends after. */
export type Position = { number: number; endByte: number };

export type LoadPosition = {
  /** The end of the last line that an earlier load has finished; undefined if it begins with the first line. */
  start: Position | undefined;
  /** Says that all lines up to this one are loaded. Written at most once a second. */
  reached: (position: Position) => void;
  /** Writes the last position, or removes the file if all lines are loaded. */
  end: (isComplete: boolean) => void;
};

const WRITE_EVERY_MS = 1_000;

const isPosition = (value: unknown): value is Position =>
  typeof value === 'object' &&
  value !== null &&
  Object.values({ number: -1, endByte: -1, ...value }).every((part) => Number.isSafeInteger(part) && part >= 0);

/** Returns the position that is stored for this load; undefined if there is none, or the file has changed since. */
function readPosition(path: string, loaded: string): Position | undefined {
  try {
    const { of, position } = JSON.parse(readFileSync(path, 'utf8')) as { of: unknown; position: unknown };
    return of === loaded && isPosition(position) ? position : undefined;
  } catch {
    return undefined;
  }
}

/** Changes the file of the position. Without it the next load begins with the first line, and keeps what is loaded. */
function attempt(change: () => void): void {
  try {
    change();
  } catch {
    // The folder cannot be written.
  }
}

/** Opens the position of a load of the file at `path`. In a folder that cannot be written, a load begins with the first line. */
export async function openLoadPosition(
  path: string,
  { url, storeId }: Pick<PublishTarget, 'url' | 'storeId'>,
  clock: Clock,
): Promise<LoadPosition> {
  const stored = `${path}.position`;
  const { size, mtimeMs } = await stat(path);
  const of = JSON.stringify([size, mtimeMs, url, storeId]);
  let last: Position | undefined;
  let writtenMs = -Infinity;
  const write = (position: Position): void => {
    writeFileSync(`${stored}.new`, JSON.stringify({ of, position }));
    renameSync(`${stored}.new`, stored);
  };
  return {
    start: readPosition(stored, of),
    reached: (position) => {
      last = position;
      if (clock.monotonicMs() - writtenMs < WRITE_EVERY_MS) return;
      writtenMs = clock.monotonicMs();
      attempt(() => write(position));
    },
    end: (isComplete) => {
      const reached = last;
      if (isComplete) attempt(() => rmSync(stored, { force: true }));
      else if (reached !== undefined) attempt(() => write(reached));
    },
  };
}
