/**
 * Idempotency keys of publishing, per store and for 24 h: a repetition is not published again and returns the first result. A
 * key covers one event (its member `idempotency_key`) or a whole request (the header).
 */
import { createHmac } from 'node:crypto';
import { IDEMPOTENCY_KEY_FORM, isIdempotencyKey } from '#http/idempotency/key.ts';
import type { Keys } from '#core/keys.ts';
import { Problem, type Fault } from '#core/problem.ts';
import type { NewEvent } from './request.ts';

/**
 * `from` and `to`: the events it covers, by position in the request; `to` is exclusive. `fingerprint` is stored; during a
 * rotation of the secret key, `others` are the fingerprints under the other keys.
 */
export type Key = {
  name: string;
  fingerprint: Buffer;
  others: readonly Buffer[];
  from: number;
  to: number;
  field: string;
};

/**
 * Returns the fingerprint of events; the order of members matters, because only the sender knows whether it is significant. It
 * is an HMAC because it outlives an erasure by a day, and a plain hash would allow guesses of the erased data.
 */
const fingerprintOf = (events: readonly NewEvent[], fingerprintKey: Buffer): Buffer => {
  const hash = createHmac('sha256', fingerprintKey);
  for (const { type, action, body } of events) hash.update(JSON.stringify([type, action, body]));
  return hash.digest();
};

/** Returns the key of an event; undefined if it has none or an invalid one, which is added to `faults`. */
export const readKeyOfEvent = (value: unknown, field: string, faults: Fault[]): string | undefined => {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string' && isIdempotencyKey(value)) return value;
  faults.push({ code: 'invalid_value', message: `${field} ${IDEMPOTENCY_KEY_FORM}`, field });
  return undefined;
};

/** `header`: the key of the whole request. */
type KeySource = { header: string | undefined; isArray: boolean };

const fieldOf = (at: number, { isArray }: KeySource): string => (isArray ? `${at}.idempotency_key` : 'idempotency_key');

/** The keys of the events, in order. */
type Names = readonly (string | undefined)[];

/** Whether both the header and the events have keys, except an equal key of a single event. */
const isNamedTwice = (names: Names, { header, isArray }: KeySource): boolean =>
  header !== undefined && names.some((name) => name !== undefined && (isArray || name !== header));

/** Adds faults for an invalid header, a key that two events share, and keys in both the header and the events. */
export const validateKeys = (names: Names, source: KeySource, faults: Fault[]): void => {
  const { header } = source;
  const ofHeader = (message: string) =>
    void faults.push({
      code: 'invalid_header',
      message: `Idempotency-Key${message}`,
      field: 'Idempotency-Key',
    });
  if (header !== undefined && !isIdempotencyKey(header)) ofHeader(` ${IDEMPOTENCY_KEY_FORM}`);
  else if (isNamedTwice(names, source)) ofHeader(': send the key in the header or in the events, not in both');
  const seen = new Set<string>();
  for (const [at, name] of names.entries()) {
    if (name === undefined) continue;
    const field = fieldOf(at, source);
    const message = `${field}: each event of an array needs a key of its own`;
    if (seen.has(name)) faults.push({ code: 'invalid_value', message, field });
    seen.add(name);
  }
};

/** Returns the keys of a request without faults. */
export const keysOf = (
  events: readonly NewEvent[],
  names: Names,
  { fingerprintKeys: [first, ...rest], ...source }: KeySource & { fingerprintKeys: Keys },
): Key[] => {
  const fingerprints = (from: number, to: number) => {
    const covered = events.slice(from, to);
    return { fingerprint: fingerprintOf(covered, first), others: rest.map((other) => fingerprintOf(covered, other)) };
  };
  const { header } = source;
  if (header !== undefined) {
    const to = events.length;
    return [{ name: header, ...fingerprints(0, to), from: 0, to, field: 'Idempotency-Key' }];
  }
  return names.flatMap((name, at) => {
    if (name === undefined) return [];
    return [{ name, ...fingerprints(at, at + 1), from: at, to: at + 1, field: fieldOf(at, source) }];
  });
};

/** Whether the stored fingerprint matches the events of the key. */
export const isSame = ({ fingerprint, others }: Key, stored: Buffer): boolean =>
  [fingerprint, ...others].some((one) => one.equals(stored));

/** Returns the 422 for a key that was used for other events. */
export const keyReused = ({ field }: Key): Problem => {
  const message = `${field}: this key was used for another event: use a new key for a new event`;
  return new Problem(422, { code: 'idempotency_key_reused', message, field });
};
