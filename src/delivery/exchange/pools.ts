/** Connections to endpoints: one guarded connector for all, one pool an origin, the least used ones closed. */
import { LRUCache } from 'lru-cache';
import { buildConnector, Pool } from 'undici';
import type { Running } from '#kernel/lifecycle.ts';
import type { Guard } from './guard.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 20_000;
/** A connection's age limit, so that a change of DNS or of the guard's rules takes effect. */
const CONNECTION_AGE_MS = 300_000;
const ANSWER_HEADERS_BYTES = 16 * 1024;

export type Pools = Running & { to: (origin: string) => Pool };

export const createPools = (guard: Guard, originPools: number): Pools => {
  const connect = buildConnector({ timeout: CONNECT_TIMEOUT_MS, lookup: guard.lookup, keepAlive: true });
  const guarded: buildConnector.connector = (options, callback) => {
    try {
      guard.judgeLiteral(options.hostname);
    } catch (error) {
      callback(error as Error, null);
      return;
    }
    connect(options, callback);
  };
  const closing = new Set<Promise<void>>();
  const pools = new LRUCache<string, Pool>({
    max: originPools,
    dispose: (pool) => {
      const closed = pool
        .close()
        .catch(() => {})
        .finally(() => closing.delete(closed));
      closing.add(closed);
    },
  });
  return {
    to: (origin) => {
      let pool = pools.get(origin);
      if (pool === undefined) {
        // No limits of undici's own: what may be in flight is counted in our lanes, and nothing ever queues in here.
        pool = new Pool(origin, {
          connect: guarded,
          connections: null,
          pipelining: 1,
          headersTimeout: 0,
          bodyTimeout: 0,
          keepAliveTimeout: KEEP_ALIVE_MS,
          clientTtl: CONNECTION_AGE_MS,
          maxHeaderSize: ANSWER_HEADERS_BYTES,
        });
        pools.set(origin, pool);
      }
      return pool;
    },
    stop: async () => {
      // Destroyed, not closed: closing waits for sockets that are still being opened.
      const open = [...pools.values()];
      await Promise.all([...open.map((pool) => pool.destroy()), ...closing]);
    },
  };
};
