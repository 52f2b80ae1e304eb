/** Which requests of a batch came before, which have to wait for one that comes now, and which can go. */
import type { Queryable } from '#db/pool.ts';
import { IDEMPOTENCY_KEPT_MS } from '#http/idempotency/key.ts';
import { shardOf } from '#core/ids.ts';
import type { Problem } from '#core/problem.ts';
import type { Request } from './publish.ts';
import { isSame, reused, type Key } from './key.ts';
import { findKeys, type KnownKey } from './key-sql.ts';

/** A request that can be written now. */
export type Ready = {
  request: Request;
  /** The ids that its events got when they came before, by their places in the request. */
  repeated: ReadonlyMap<number, number>;
  /** Keys that nobody has used yet. */
  claims: readonly Key[];
};

/** One that is in neither has a key that one of the ready is about to claim: it comes again when that has its answer. */
export type Recalled = {
  ready: Ready[];
  refused: { request: Request; problem: Problem }[];
};

export const staleAt = (now: Date): Date => new Date(now.getTime() - IDEMPOTENCY_KEPT_MS);

const nameOf = (storeId: number, key: string): string => `${storeId} ${key}`;

const sortOut = (requests: readonly Request[], known: readonly KnownKey[]): Recalled => {
  const kept = new Map(known.map((one) => [nameOf(one.storeId, one.key), one]));
  const claimed = new Set<string>();
  const recalled: Recalled = { ready: [], refused: [] };
  for (const request of requests) {
    const units = (request.keys ?? []).map((key) => {
      const name = nameOf(request.storeId, key.name);
      return { key, name, before: kept.get(name) };
    });
    const other = units.find(({ key, before }) => before !== undefined && !isSame(key, before.fingerprint));
    if (other !== undefined) {
      recalled.refused.push({ request, problem: reused(other.key) });
    } else if (!units.some(({ name, before }) => before === undefined && claimed.has(name))) {
      const fresh = units.filter(({ before }) => before === undefined);
      for (const { name } of fresh) claimed.add(name);
      const repeated = units.flatMap(({ key, before }) =>
        (before?.eventIds ?? []).map((id, index) => [key.from + index, id] as const),
      );
      recalled.ready.push({ request, repeated: new Map(repeated), claims: fresh.map(({ key }) => key) });
    }
  }
  return recalled;
};

/** One look-up for all keys of a batch, and none where it has none. */
export const recall = async (sql: Queryable, requests: readonly Request[], now: Date): Promise<Recalled> => {
  const all = requests.flatMap(({ storeId, keys = [] }) => keys.map(({ name }) => ({ storeId, name })));
  if (all.length === 0) return sortOut(requests, []);
  const columns = {
    shard: all.map(({ storeId }) => shardOf(storeId)),
    storeId: all.map(({ storeId }) => storeId),
    key: all.map(({ name }) => name),
  };
  return sortOut(requests, await findKeys(sql, columns, staleAt(now)));
};
