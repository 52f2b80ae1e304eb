/** One array after the other, so that the events of a resource keep the order of their lines. */
import { EXIT, UserError } from '../explain.ts';
import type { Fault, Send } from './api.ts';
import type { Entry, Item } from './batches.ts';

export type Refused = { line: number; messages: readonly string[] };

export type PublishCounts = {
  /** Events that stand in the store now, from this run or from one before. */
  published: number;
  /** How far in the input this is. */
  bytes: number;
  refused: number;
};

export type RunDeps = {
  send: Send;
  keepsGoing: boolean;
  /** Told of each line that is refused. */
  onRefused: (refused: Refused) => void;
  onProgress: () => void;
};

/** The faults by their place in the array; what names no place is not in it. */
const byPlace = (entries: readonly Entry[], faults: readonly Fault[]): Map<Entry, string[]> => {
  const blamed = new Map<Entry, string[]>();
  for (const { at, message } of faults) {
    const entry = at === undefined && entries.length === 1 ? entries[0] : entries[at ?? -1];
    if (entry !== undefined) blamed.set(entry, [...(blamed.get(entry) ?? []), message]);
  }
  return blamed;
};

/**
 * Sends all items and counts in `tally`. At the first line that is refused it throws, when everything before that line is
 * published and nothing after it; with `keepsGoing` it goes on without the line.
 */
export const sendAll = async (
  items: AsyncIterable<Item>,
  tally: PublishCounts,
  { send, keepsGoing, onRefused, onProgress }: RunDeps,
): Promise<void> => {
  const refuse = (line: number, messages: readonly string[]): void => {
    tally.refused += 1;
    onRefused({ line, messages });
    if (!keepsGoing) throw new UserError(`Stopped at line ${line}`, EXIT.failed);
  };
  /** An array is published whole or not at all: without what is wrong with it, it is sent again. */
  const publish = async (entries: readonly Entry[]): Promise<void> => {
    if (entries.length === 0) return;
    const faults = await send(entries);
    if (faults === undefined) {
      tally.published += entries.length;
      return;
    }
    const blamed = byPlace(entries, faults);
    const first = entries.findIndex((entry) => blamed.has(entry));
    if (first === -1) {
      // Nobody says which one it is. Down to one event there is no doubt.
      const half = Math.ceil(entries.length / 2);
      await publish(entries.slice(0, half));
      await publish(entries.slice(half));
      return;
    }
    if (!keepsGoing) await publish(entries.slice(0, first));
    for (const [{ line }, messages] of [...blamed].toSorted(([a], [b]) => a.line - b.line)) refuse(line, messages);
    await publish(entries.filter((entry) => !blamed.has(entry)));
  };
  for await (const item of items) {
    if (item.kind === 'fault') refuse(item.line, [item.message]);
    else await publish(item.entries);
    tally.bytes = item.endByte;
    onProgress();
  }
};
