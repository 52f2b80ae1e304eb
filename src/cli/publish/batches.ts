/** Lines as what is sent: arrays of events, bounded by count and bytes, each event with its key. */
import { setTimeout as pause } from 'node:timers/promises';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import type { Line } from './lines.ts';

/** One event as JSON text, with its idempotency key in it. */
export type Entry = { line: number; text: string; key: string };

/** Events to send together, or a line that is none. `endByte`: how far in the input this is. */
export type Item =
  | { kind: 'parcel'; entries: readonly Entry[]; endByte: number }
  | { kind: 'fault'; line: number; message: string; endByte: number };

export type BatchLimits = { events: number; bytes: number };

/**
 * Of who writes a line now and then: what is there is sent when nothing came for so long, and not when an array is full.
 * Files are faster than this.
 */
const IDLE_MS = 100;

type Key = (event: unknown) => string;

const NAME = 'idempotency_key';

const addKey = (text: string, event: object, key: string): string =>
  `${text.slice(0, -1)}${Object.keys(event).length > 0 ? ',' : ''}"${NAME}":"${key}"}`;

/** In the place of a `null` or `""`, which names no key: another member of that name would be one too many. */
const replaceKey = (text: string, key: string): string => {
  const tree = parseTree(text);
  const none = tree === undefined ? undefined : findNodeAtLocation(tree, [NAME]);
  return none === undefined ? text : `${text.slice(0, none.offset)}"${key}"${text.slice(none.offset + none.length)}`;
};

/** The line as it was written, so that whatever is wrong with it is seen where events are judged; the key goes in at its end. */
const entryOf = (line: number, text: string, keyOf: Key): Entry | string => {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch (error) {
    return `the line is not JSON (${(error as Error).message}): write one event as one line`;
  }
  if (typeof event !== 'object' || event === null || Array.isArray(event)) {
    return 'the line is not an event: write {"event": "transaction/created", "resource": {…}}';
  }
  const { [NAME]: named, ...said } = event as { [NAME]?: unknown };
  if (named !== undefined && named !== null && named !== '') return { line, text, key: JSON.stringify(named) };
  const key = keyOf(said);
  return { line, text: named === undefined ? addKey(text, said, key) : replaceKey(text, key), key };
};

const IDLE = Symbol('idle');

/** What comes next, and before it `IDLE` where it lets wait for itself while something is `pending`. */
async function* withPauses<T>(source: AsyncIterable<T>, isPending: () => boolean): AsyncGenerator<T | typeof IDLE> {
  const iterator = source[Symbol.asyncIterator]();
  for (;;) {
    const next = iterator.next();
    if (isPending()) {
      const over = new AbortController();
      const idle = pause(IDLE_MS, IDLE, { signal: over.signal }).catch(() => IDLE);
      const first = await Promise.race([next, idle]);
      over.abort();
      if (first === IDLE) yield IDLE;
    }
    const { done, value } = await next;
    if (done === true) return;
    yield value;
  }
}

/** Everything in the order of the input: a fault comes after all that stands before it. `keyOf` is asked in that order. */
export async function* batchesOf(
  lines: AsyncIterable<readonly Line[]>,
  limits: BatchLimits,
  keyOf: Key,
): AsyncGenerator<Item> {
  let entries: Entry[] = [];
  let [bytes, endByte] = [0, 0];
  const keys = new Set<string>();
  const take = (): Item[] => {
    if (entries.length === 0) return [];
    const parcel: Item = { kind: 'parcel', entries, endByte };
    [entries, bytes] = [[], 0];
    keys.clear();
    return [parcel];
  };
  for await (const batch of withPauses(lines, () => entries.length > 0)) {
    if (batch === IDLE) {
      yield* take();
      continue;
    }
    for (const line of batch) {
      const entry = 'fault' in line ? line.fault : entryOf(line.number, line.text, keyOf);
      if (typeof entry === 'string') {
        yield* take();
        yield { kind: 'fault', line: line.number, message: entry, endByte: line.endByte };
        continue;
      }
      const sizeBytes = Buffer.byteLength(entry.text) + 1;
      // An array cannot name a key twice: the later one is sent when the former has its answer.
      if (entries.length === limits.events || bytes + sizeBytes > limits.bytes || keys.has(entry.key)) yield* take();
      entries.push(entry);
      keys.add(entry.key);
      bytes += sizeBytes;
      endByte = line.endByte;
    }
  }
  yield* take();
}
