/**
 * Idempotency keys of publishing, per store and for 24 h: a repetition is not published again and returns the first result. A
 * key covers one event (its member `idempotency_key`) or a whole request (the header).
 */
import { createHmac } from 'node:crypto';
import { IDEMPOTENCY_KEY_FORM, isIdempotencyKey } from '#http/idempotency.ts';
import type { Keys } from '#core/keys.ts';
import { Problem, type Fault } from '#core/problem.ts';
import type { NewEvent } from './publish-request.ts';
import type { Queryable } from '#db/pool.ts';
import type { PublishRequest } from './publish.ts';
import { findKeys, type KnownKey } from './publish-sql.ts';

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

/** What a fingerprint is made of. */
type Covered = Pick<NewEvent, 'type' | 'action' | 'body'> | { request: string };

/**
 * Returns the fingerprint of events; the order of members matters, because only the sender knows whether it is significant. It
 * is an HMAC because it outlives an erasure by a day, and a plain hash would allow guesses of the erased data.
 */
function fingerprintOf(covered: readonly Covered[], fingerprintKey: Buffer): Buffer {
  const hash = createHmac('sha256', fingerprintKey);
  for (const one of covered)
    hash.update(JSON.stringify('request' in one ? [one.request] : [one.type, one.action, one.body]));
  return hash.digest();
}

const fingerprintsOf = (covered: readonly Covered[], [first, ...rest]: Keys): Pick<Key, 'fingerprint' | 'others'> => ({
  fingerprint: fingerprintOf(covered, first),
  others: rest.map((other) => fingerprintOf(covered, other)),
});

/** Returns the key of an event; undefined if it has none or an invalid one, which is added to `faults`. */
export function readKeyOfEvent(value: unknown, field: string, faults: Fault[]): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string' && isIdempotencyKey(value)) return value;
  faults.push({ code: 'invalid_value', message: `${field} ${IDEMPOTENCY_KEY_FORM}`, field });
  return undefined;
}

/** `header`: the key of the whole request. */
type KeySource = { header: string | undefined; isArray: boolean };

const fieldOf = (at: number, { isArray }: KeySource): string => (isArray ? `${at}.idempotency_key` : 'idempotency_key');

/** The keys of the events, in order. */
type Names = readonly (string | undefined)[];

/** Returns whether both the header and the events have keys, except an equal key of a single event. */
const isNamedTwice = (names: Names, { header, isArray }: KeySource): boolean =>
  header !== undefined && names.some((name) => name !== undefined && (isArray || name !== header));

/** Adds faults for an invalid header, a key that two events share, and keys in both the header and the events. */
export function validateKeys(names: Names, source: KeySource, faults: Fault[]): void {
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
}

/** Returns the keys of a request without faults. */
export function keysOf(
  events: readonly NewEvent[],
  names: Names,
  { fingerprintKeys, ...source }: KeySource & { fingerprintKeys: Keys },
): Key[] {
  const fingerprints = (from: number, to: number) => fingerprintsOf(events.slice(from, to), fingerprintKeys);
  const { header } = source;
  if (header !== undefined) {
    const to = events.length;
    return [{ name: header, ...fingerprints(0, to), from: 0, to, field: 'Idempotency-Key' }];
  }
  return names.flatMap((name, at) => {
    if (name === undefined) return [];
    return [{ name, ...fingerprints(at, at + 1), from: at, to: at + 1, field: fieldOf(at, source) }];
  });
}

/**
 * Returns the key of a request that does not contain its events: `request` identifies its input, and the key covers as many events as
 * the input always makes.
 */
export function keyOfRequest(
  name: string,
  request: string,
  { events, fingerprintKeys }: { events: number; fingerprintKeys: Keys },
): Key {
  return { name, ...fingerprintsOf([{ request }], fingerprintKeys), from: 0, to: events, field: 'Idempotency-Key' };
}

/** Returns whether the stored fingerprint matches the events of the key. */
const isSame = ({ fingerprint, others }: Key, stored: Buffer): boolean =>
  [fingerprint, ...others].some((one) => one.equals(stored));

/** Returns the 422 for a key that was used for other events. */
function keyReused({ field }: Key): Problem {
  const message = `${field}: this key was used for another event: use a new key for a new event`;
  return new Problem(422, { code: 'idempotency_key_reused', message, field });
}

/** A request that can be written now. */
export type Ready = {
  request: PublishRequest;
  /** Ids of repeated events, by position in the request. */
  repeated: ReadonlyMap<number, number>;
  /** Keys that are not stored yet. */
  claims: readonly Key[];
};

/** A request in neither list has a key that a ready request is about to claim; it is looked up again afterwards. */
export type KeyLookup = {
  ready: Ready[];
  refused: { request: PublishRequest; problem: Problem }[];
};

const nameOf = (storeId: number, key: string): string => `${storeId} ${key}`;

function classify(requests: readonly PublishRequest[], known: readonly KnownKey[]): KeyLookup {
  const stored = new Map(known.map((one) => [nameOf(one.storeId, one.key), one]));
  const claimed = new Set<string>();
  const result: KeyLookup = { ready: [], refused: [] };
  for (const request of requests) {
    const keyStates = (request.keys ?? []).map((key) => {
      const name = nameOf(request.storeId, key.name);
      return { key, name, before: stored.get(name) };
    });
    const other = keyStates.find(({ key, before }) => before !== undefined && !isSame(key, before.fingerprint));
    if (other !== undefined) {
      result.refused.push({ request, problem: keyReused(other.key) });
    } else if (!keyStates.some(({ name, before }) => before === undefined && claimed.has(name))) {
      const unused = keyStates.filter(({ before }) => before === undefined);
      for (const { name } of unused) claimed.add(name);
      const repeated = keyStates.flatMap(({ key, before }) =>
        (before?.eventIds ?? []).map((id, index) => [key.from + index, id] as const),
      );
      result.ready.push({ request, repeated: new Map(repeated), claims: unused.map(({ key }) => key) });
    }
  }
  return result;
}

/**
 * Looks up the keys of a batch in one statement, or in none if there are no keys: which events are repetitions, which requests
 * can be written now, and which wait for another request of the batch.
 */
export async function lookUpKeys(sql: Queryable, requests: readonly PublishRequest[], now: Date): Promise<KeyLookup> {
  const all = requests.flatMap(({ storeId, keys = [] }) => keys.map(({ name }) => ({ storeId, key: name })));
  return classify(requests, all.length === 0 ? [] : await findKeys(sql, all, now));
}
