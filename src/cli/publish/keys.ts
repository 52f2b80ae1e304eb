/**
 * Idempotency keys for events that have none: made of what the event says and how often the same came before in this input.
 * The same file again has the same keys, also when a line of it was mended or taken out, which a line's number would not give.
 */
import { createHash, createHmac } from 'node:crypto';

/** 16 MiB, whatever the length of the input. Of a million lines one is taken for a repetition by mistake. */
const BITS = 2 ** 27;
/** 16 MiB, whatever the length of the input. */
const COUNTERS = 2 ** 22;
const PROBES = 4;

type Occurrences = (digest: Buffer) => number;

/** Whether a digest came before: a Bloom filter, which never overlooks one that did. */
const createKnown = (): ((digest: Buffer) => boolean) => {
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
};

/** A number for each time a digest comes: a count-min sketch, whose least counter rises with every one of them. */
const createNumbers = (): Occurrences => {
  const counters = new Uint32Array(COUNTERS);
  return (digest) => {
    // Other bytes than those that the filter reads: who shares all its places there does not share them here.
    const places = Array.from({ length: PROBES }, (_, probe) => digest.readUInt32LE(4 * (PROBES + probe)) % COUNTERS);
    const count = Math.min(...places.map((place) => counters[place] ?? 0));
    for (const place of places) counters[place] = (counters[place] ?? 0) + 1;
    return count + 1;
  };
};

/**
 * How often a digest came before. A Map of them took 100 bytes a line, and ends at 16 million; a Map of those that repeat
 * did the same where all of them do. Here a number may be too high, where others have the same places: it is so in every run
 * of the same input, and never one that the digest had before.
 *
 * So a line that is mended may make others new: in ten million lines that are all different 0.003 of them, in twenty million
 * 0.1, in forty 0.5, in a hundred 24.
 */
const createOccurrences = (): Occurrences => {
  const isKnown = createKnown();
  const numberOf = createNumbers();
  return (digest) => (isKnown(digest) ? numberOf(digest) : 0);
};

/**
 * Makes keys for one input, in its order. White space in the JSON makes no other key. `secret` is the client's: the server
 * keeps keys for a day, also of what is erased meanwhile, and whoever reads a bare digest can try what it was made of.
 */
export const createKeys = (secret: string): ((event: unknown) => string) => {
  const occurrencesOf = createOccurrences();
  const hmacKey = createHash('sha256').update(`halcyon publish\n${secret}`).digest();
  return (event) => {
    const digest = createHmac('sha256', hmacKey).update(JSON.stringify(event)).digest();
    return `hmac-${digest.toString('base64url')}.${occurrencesOf(digest)}`;
  };
};
