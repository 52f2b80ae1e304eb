/** Groups lines into arrays of events, limited by count and bytes, and adds idempotency keys. */
import { setTimeout as pause } from 'node:timers/promises';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import { parseExact } from '#core/exact-number.ts';
import type { Line } from './lines.ts';

/** One event as JSON text that contains its idempotency key. */
export type Entry = { line: number; text: string; key: string };

/** Events to send together, or an invalid line. `endByte` is the end in the input. */
export type Item =
  | { kind: 'batch'; entries: readonly Entry[]; endByte: number }
  | { kind: 'fault'; line: number; message: string; endByte: number };

export type BatchLimits = { events: number; bytes: number };

/** The maximum wait for the next line of a slow pipe before an incomplete batch is sent. */
const IDLE_MS = 100;

type Key = (event: unknown) => string;

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
  'the line begins a JSON array: write each of its events as one line, as jq -c ".[]" does, and publish these lines';

/** Returns the line with its key, or a message. The text is otherwise unchanged, so that the server validates the original. */
function entryOf(line: number, text: string, keyOf: Key): Entry | string {
  if (text.startsWith('[')) return IS_ARRAY;
  let event: unknown;
  try {
    event = parseExact(text);
  } catch (error) {
    return `the line is not JSON (${(error as Error).message}): write one event as one line`;
  }
  if (typeof event !== 'object' || event === null) {
    return 'the line is not an event: write {"event": "transaction/created", "resource": {…}}';
  }
  const { [NAME]: ownKey, ...content } = event as { [NAME]?: unknown };
  if (ownKey !== undefined && ownKey !== null && ownKey !== '') return { line, text, key: JSON.stringify(ownKey) };
  const key = keyOf(content);
  return { line, text: ownKey === undefined ? addKey(text, content, key) : replaceKey(text, key), key };
}

const IDLE = Symbol('idle');

/** Yields the items of the source, and `IDLE` before an item that takes longer than `IDLE_MS` while `isPending`. */
async function* withPauses<T>(source: AsyncIterable<T>, isPending: () => boolean): AsyncGenerator<T | typeof IDLE> {
  const iterator = source[Symbol.asyncIterator]();
  for (;;) {
    const next = iterator.next();
    if (isPending()) {
      const timer = new AbortController();
      const idle = pause(IDLE_MS, IDLE, { signal: timer.signal }).catch(() => IDLE);
      const first = await Promise.race([next, idle]);
      timer.abort();
      if (first === IDLE) yield IDLE;
    }
    const { done, value } = await next;
    if (done === true) return;
    yield value;
  }
}

/** Yields batches and faults in the order of the input, in which `keyOf` is called as well. */
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
    const batch: Item = { kind: 'batch', entries, endByte };
    [entries, bytes] = [[], 0];
    keys.clear();
    return [batch];
  };
  for await (const chunk of withPauses(lines, () => entries.length > 0)) {
    if (chunk === IDLE) {
      yield* take();
      continue;
    }
    for (const line of chunk) {
      const entry = 'fault' in line ? line.fault : entryOf(line.number, line.text, keyOf);
      if (typeof entry === 'string') {
        yield* take();
        yield { kind: 'fault', line: line.number, message: entry, endByte: line.endByte };
        continue;
      }
      const sizeBytes = Buffer.byteLength(entry.text) + 1;
      // An array cannot contain a key twice, so the second occurrence begins a new batch.
      if (entries.length === limits.events || bytes + sizeBytes > limits.bytes || keys.has(entry.key)) yield* take();
      entries.push(entry);
      keys.add(entry.key);
      bytes += sizeBytes;
      endByte = line.endByte;
    }
  }
  yield* take();
}
