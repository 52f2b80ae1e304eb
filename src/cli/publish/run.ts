/** Sends the batches one after the other, so that the events of a resource keep their order. */
import { EXIT, UserError } from '../explain.ts';
import type { Fault, Send } from './api.ts';
import type { Entry, Item } from './batches.ts';

export type Refused = { line: number; messages: readonly string[] };

export type PublishCounts = {
  /** Events that are published by this run or an earlier one. */
  published: number;
  /** The position in the input. */
  bytes: number;
  refused: number;
};

export type RunDeps = {
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
export async function sendAll(
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
