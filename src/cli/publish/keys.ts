/**
 * Idempotency keys for events that have none: made of what the event says and how often the same came before in this input.
 * The same file again has the same keys, also when a line of it was mended or taken out, which a line's number would not give.
 */
import { createHash } from 'node:crypto';

/** 16 MiB, whatever the length of the input. Of a million lines one is taken for a repetition by mistake. */
const BITS = 2 ** 27;
const PROBES = 4;

/**
 * Counts how often a digest came before. Which ones came at all is kept in a Bloom filter: a Map of them took 100 bytes a line,
 * and ends at 16 million. One that is taken for a repetition gets a higher number the first time, the same in every run, and
 * never one that it had before.
 */
const createOccurrences = (): ((digest: Buffer) => number) => {
  const bits = new Uint8Array(BITS / 8);
  const repeated = new Map<string, number>();
  return (digest) => {
    let isKnown = true;
    for (let probe = 0; probe < PROBES; probe += 1) {
      const bit = digest.readUInt32LE(4 * probe) % BITS;
      const mask = 1 << (bit & 7);
      if (((bits[bit >>> 3] ?? 0) & mask) === 0) isKnown = false;
      bits[bit >>> 3] = (bits[bit >>> 3] ?? 0) | mask;
    }
    if (!isKnown) return 0;
    const name = digest.toString('base64url');
    const count = (repeated.get(name) ?? 0) + 1;
    repeated.set(name, count);
    return count;
  };
};

/** Makes keys for one input, in its order. White space in the JSON makes no other key. */
export const createKeys = (): ((event: unknown) => string) => {
  const occurrencesOf = createOccurrences();
  return (event) => {
    const digest = createHash('sha256').update(JSON.stringify(event)).digest();
    return `sha256-${digest.toString('base64url')}.${occurrencesOf(digest)}`;
  };
};
