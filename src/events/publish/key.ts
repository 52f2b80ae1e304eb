/**
 * Idempotency of publishing, per store and for 24 h: what comes again under its key is not published again, and is answered
 * with what became of it the first time. A key stands for one event (its member `idempotency_key`) or for a whole request
 * (the header).
 */
import { createHmac } from 'node:crypto';
import { IDEMPOTENCY_KEY_FORM, isIdempotencyKey } from '#http/idempotency/key.ts';
import type { Keys } from '#core/keys.ts';
import { Problem, type Fault } from '#core/problem.ts';
import type { NewEvent } from './request.ts';

/**
 * `from` and `to`: the events it stands for, as places in the request; `to` is the first that it does not. `fingerprint` is
 * what is kept; while the secret key changes, `others` are what a process with the other one would have kept.
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
 * What the events say; the order of members counts, because nobody but the sender can say what it means. An HMAC, because it
 * outlives an erasure by a day: whoever reads a bare hash can try what was erased.
 */
const fingerprintOf = (events: readonly NewEvent[], fingerprintKey: Buffer): Buffer => {
  const hash = createHmac('sha256', fingerprintKey);
  for (const { type, action, body } of events) hash.update(JSON.stringify([type, action, body]));
  return hash.digest();
};

/** The key that an event names; undefined where it names none, or one that cannot be, which goes to `faults`. */
export const readKeyOfEvent = (value: unknown, field: string, faults: Fault[]): string | undefined => {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string' && isIdempotencyKey(value)) return value;
  faults.push({ code: 'invalid_value', message: `${field} ${IDEMPOTENCY_KEY_FORM}`, field });
  return undefined;
};

/** As its request came: `header` is the key of the whole. */
type Asked = { header: string | undefined; isArray: boolean };

const fieldOf = (at: number, { isArray }: Asked): string => (isArray ? `${at}.idempotency_key` : 'idempotency_key');

/** `names` are those of the events, in their order. */
type Names = readonly (string | undefined)[];

/** Whether header and events both name a key, and not the same of a single event. */
const isNamedTwice = (names: Names, { header, isArray }: Asked): boolean =>
  header !== undefined && names.some((name) => name !== undefined && (isArray || name !== header));

/** Finds a header that cannot be a key, a key that two events have, and those that stand both in header and events. */
export const judgeKeys = (names: Names, asked: Asked, faults: Fault[]): void => {
  const { header } = asked;
  const ofHeader = (message: string) =>
    void faults.push({
      code: 'invalid_header',
      message: `Idempotency-Key${message}`,
      field: 'Idempotency-Key',
    });
  if (header !== undefined && !isIdempotencyKey(header)) ofHeader(` ${IDEMPOTENCY_KEY_FORM}`);
  else if (isNamedTwice(names, asked)) ofHeader(': name the key in the header or in the events, not in both');
  const seen = new Set<string>();
  for (const [at, name] of names.entries()) {
    if (name === undefined) continue;
    const field = fieldOf(at, asked);
    const message = `${field}: each event of an array needs a key of its own`;
    if (seen.has(name)) faults.push({ code: 'invalid_value', message, field });
    seen.add(name);
  }
};

/** The keys of a request in which `judgeKeys` has found no fault. */
export const keysOf = (
  events: readonly NewEvent[],
  names: Names,
  { fingerprintKeys: [first, ...rest], ...asked }: Asked & { fingerprintKeys: Keys },
): Key[] => {
  const fingerprints = (from: number, to: number) => {
    const said = events.slice(from, to);
    return { fingerprint: fingerprintOf(said, first), others: rest.map((other) => fingerprintOf(said, other)) };
  };
  const { header } = asked;
  if (header !== undefined) {
    const to = events.length;
    return [{ name: header, ...fingerprints(0, to), from: 0, to, field: 'Idempotency-Key' }];
  }
  return names.flatMap((name, at) => {
    if (name === undefined) return [];
    return [{ name, ...fingerprints(at, at + 1), from: at, to: at + 1, field: fieldOf(at, asked) }];
  });
};

/** Whether what was kept under the key says what it says now. */
export const isSame = ({ fingerprint, others }: Key, kept: Buffer): boolean =>
  [fingerprint, ...others].some((one) => one.equals(kept));

/** 422: the key was used for something else. */
export const reused = ({ field }: Key): Problem => {
  const message = `${field}: this key was used for another event: take a new one for what is new`;
  return new Problem(422, { code: 'idempotency_key_reused', message, field });
};
