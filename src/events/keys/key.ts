/**
 * Idempotency of publishing, per store and for 24 h: what comes again under its key is not published again, and is answered
 * with what became of it the first time. A key stands for one event (its member `idempotency_key`) or for a whole request
 * (the header).
 */
import { createHmac } from 'node:crypto';
import { IDEMPOTENCY_KEY_FORM, isIdempotencyKey } from '#http/idempotency/key.ts';
import { invalid, Problem, type Fault } from '#kernel/problem.ts';
import type { NewEvent } from '../request.ts';

/** `from` and `to`: the events it stands for, as places in the request; `to` is the first that it does not. */
export type Key = { name: string; fingerprint: Buffer; from: number; to: number; field: string };

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
  if (value === undefined) return undefined;
  if (typeof value === 'string' && isIdempotencyKey(value)) return value;
  faults.push({ code: 'invalid_value', message: `idempotency_key ${IDEMPOTENCY_KEY_FORM}`, field });
  return undefined;
};

const readHeader = (header: string | undefined): string | undefined => {
  if (header === undefined || isIdempotencyKey(header)) return header;
  const message = `Idempotency-Key ${IDEMPOTENCY_KEY_FORM}`;
  throw invalid({ code: 'invalid_header', message, field: 'Idempotency-Key' });
};

const twice = (field: string): Problem =>
  invalid({ code: 'invalid_value', message: 'idempotency_key: each event of an array needs a key of its own', field });

const both = (): Problem =>
  invalid({
    code: 'invalid_header',
    message: 'Idempotency-Key: name the key in the header or in the events, not in both',
    field: 'Idempotency-Key',
  });

/**
 * The keys of a request: `names` are those of its events, in their order. Throws a 400 for one that stands twice, and where
 * header and events both name one, unless both say the same of a single event.
 */
export const keysOf = (
  events: readonly NewEvent[],
  names: readonly (string | undefined)[],
  asked: { header: string | undefined; isArray: boolean; fingerprintKey: Buffer },
): Key[] => {
  const fingerprint = (from: number, to: number) => fingerprintOf(events.slice(from, to), asked.fingerprintKey);
  const header = readHeader(asked.header);
  const named = names.flatMap((name, at) => (name === undefined ? [] : [{ name, at }]));
  if (header !== undefined && named.length > 0 && (asked.isArray || named[0]?.name !== header)) throw both();
  if (header !== undefined) {
    const to = events.length;
    return [{ name: header, fingerprint: fingerprint(0, to), from: 0, to, field: 'Idempotency-Key' }];
  }
  const seen = new Set<string>();
  return named.map(({ name, at }) => {
    const field = asked.isArray ? `${at}.idempotency_key` : 'idempotency_key';
    if (seen.has(name)) throw twice(field);
    seen.add(name);
    return { name, fingerprint: fingerprint(at, at + 1), from: at, to: at + 1, field };
  });
};

/** 422: the key was used for something else. */
export const reused = ({ field }: Key): Problem => {
  const message = `${field}: this key was used for another event: take a new one for what is new`;
  return new Problem(422, { code: 'idempotency_key_reused', message, field });
};
