/**
 * Looks up the idempotency keys of a batch: which events are repetitions, which requests can be written now, and which wait for
 * another request of the batch.
 */
import type { Queryable } from '#db/pool.ts';
import { IDEMPOTENCY_KEPT_MS } from '#http/idempotency/key.ts';
import { shardOf } from '#core/ids.ts';
import type { Problem } from '#core/problem.ts';
import type { Request } from './publish.ts';
import { isSame, keyReused, type Key } from './key.ts';
import { findKeys, type KnownKey } from './key-sql.ts';

/** A request that can be written now. */
export type Ready = {
  request: Request;
  /** Ids of repeated events, by position in the request. */
  repeated: ReadonlyMap<number, number>;
  /** Keys that are not stored yet. */
  claims: readonly Key[];
};

/** A request in neither list has a key that a ready request is about to claim; it is looked up again afterwards. */
export type KeyLookup = {
  ready: Ready[];
  refused: { request: Request; problem: Problem }[];
};

export const staleAt = (now: Date): Date => new Date(now.getTime() - IDEMPOTENCY_KEPT_MS);

const nameOf = (storeId: number, key: string): string => `${storeId} ${key}`;

const classify = (requests: readonly Request[], known: readonly KnownKey[]): KeyLookup => {
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
};

/** Looks up all keys of a batch in one statement; none if the batch has no keys. */
export const lookUpKeys = async (sql: Queryable, requests: readonly Request[], now: Date): Promise<KeyLookup> => {
  const all = requests.flatMap(({ storeId, keys = [] }) => keys.map(({ name }) => ({ storeId, name })));
  if (all.length === 0) return classify(requests, []);
  const columns = {
    shard: all.map(({ storeId }) => shardOf(storeId)),
    storeId: all.map(({ storeId }) => storeId),
    key: all.map(({ name }) => name),
  };
  return classify(requests, await findKeys(sql, columns, staleAt(now)));
};
