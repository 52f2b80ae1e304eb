/**
 * Posts forms, or requests the given paths, over kept-alive connections, in a process of its own: a client inside the measured process would be measured
 * with it. It looks at the status of an answer and parses none.
 */
import { Pool } from 'undici';
import { answer } from './child.ts';
import { monotonicMs } from './monotonic.ts';

/** `headers` beside the two that every request has; a `GET` sends no body, whatever there is to send. */
export type Target = {
  origin: string;
  /** Requests take turns over several paths. */
  path: string | readonly string[];
  authorization: string;
  method?: 'GET';
  headers?: Readonly<Record<string, string>>;
};

export type Loaded = {
  ms: number;
  /** Milliseconds, request by request in the order of their ends. */
  latencies: number[];
  /** What was not a 200, 201 or 202: the status and the body, or what went wrong on the way. */
  failures: string[];
  /** The bodies in the order of their requests, where they were asked for. */
  answers: string[];
};

type Exchange = (n: number, body: string, since: number, done: () => void) => void;

const isSuccess = (status: number): boolean => status >= 200 && status <= 202;

const TICK_MS = 1;

const pools = new Map<string, Pool>();

function poolTo(origin: string, connections: number): Pool {
  const key = `${origin} ${connections}`;
  const pool = pools.get(key) ?? new Pool(origin, { connections, pipelining: 1 });
  pools.set(key, pool);
  return pool;
}

function exchanging(target: Target, connections: number, keeps: boolean): { loaded: Loaded; exchange: Exchange } {
  const pool = poolTo(target.origin, connections);
  const loaded: Loaded = { ms: 0, latencies: [], failures: [], answers: [] };
  const { method = 'POST', authorization } = target;
  const paths = typeof target.path === 'string' ? [target.path] : target.path;
  const type = method === 'GET' ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
  const headers = { authorization, ...type, ...target.headers };
  const exchange: Exchange = (n, body, since, done) => {
    let status = 0;
    let text = '';
    pool.dispatch(
      { method, path: paths[n % paths.length] ?? '/', headers, ...(method === 'POST' && { body }) },
      {
        onRequestStart: () => {},
        onResponseStart: (_controller, code) => void (status = code),
        onResponseData: (_controller, chunk) => {
          if (keeps || !isSuccess(status)) text += chunk.toString();
        },
        onResponseEnd: () => {
          loaded.latencies.push(performance.now() - since);
          if (!isSuccess(status)) loaded.failures.push(`${status} ${text}`);
          else if (keeps) loaded.answers[n] = text;
          done();
        },
        onResponseError: (_controller, error) => {
          loaded.failures.push(String(error));
          done();
        },
      },
    );
  };
  return { loaded, exchange };
}

const handlers = {
  /** A closed loop: each body once, `connections` of them at a time. */
  burst: async (given: {
    target: Target;
    bodies: readonly string[];
    connections: number;
    keeps: boolean;
  }): Promise<Loaded> => {
    const { bodies, connections } = given;
    const { loaded, exchange } = exchanging(given.target, connections, given.keeps);
    const startedAt = performance.now();
    let next = 0;
    const client = async () => {
      while (next < bodies.length) {
        const n = next++;
        await new Promise<void>((done) => exchange(n, bodies[n] ?? '', performance.now(), done));
      }
    };
    await Promise.all(Array.from({ length: connections }, client));
    loaded.ms = performance.now() - startedAt;
    return loaded;
  },
  /**
   * An open loop: the bodies in turn, each sent when its time has come, whatever has become of those before. How long it
   * took counts from that time, so that a server that stalls cannot hide who had to wait for it. A body with `"at":0` carries
   * its time there instead.
   */
  stream: (given: {
    target: Target;
    bodies: readonly string[];
    connections: number;
    perSecond: number;
    seconds: number;
  }): Promise<Loaded> => {
    const { bodies, perSecond } = given;
    const { loaded, exchange } = exchanging(given.target, given.connections, false);
    const count = perSecond * given.seconds;
    const { promise, resolve } = Promise.withResolvers<Loaded>();
    const startedAt = performance.now();
    const startedMs = monotonicMs();
    let next = 0;
    let ended = 0;
    const done = () => {
      ended += 1;
      if (ended < count) return;
      loaded.ms = performance.now() - startedAt;
      resolve(loaded);
    };
    const timer = setInterval(() => {
      // The first is due at once.
      const dueCount = Math.min(count, 1 + Math.floor(((performance.now() - startedAt) * perSecond) / 1_000));
      for (; next < dueCount; next += 1) {
        const dueMs = (next * 1_000) / perSecond;
        const body = bodies[next % bodies.length]?.replace('"at":0', `"at":${startedMs + dueMs}`) ?? '';
        exchange(next, body, startedAt + dueMs, done);
      }
      if (next === count) clearInterval(timer);
    }, TICK_MS);
    return promise;
  },
};

export type HttpLoadProcess = typeof handlers;
answer(handlers, async () => {
  await Promise.all([...pools.values()].map((pool) => pool.close()));
});
