/** Start and stop of the components of a process, and its readiness for load balancers and supervisors. */
import type { Log } from './log.ts';

/** A running component: started by its creation, ended by `stop`, which may be called twice. */
export type Running = { stop: () => Promise<void> };

/** Limits the wait for the stop of a component; what it has not completed then ends with the process. */
export function within(limitMs: number, component: Running): Running {
  return {
    stop: async () => {
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, limitMs);
      await Promise.race([component.stop(), late]).finally(() => clearTimeout(timer));
    },
  };
}

/** Stops the components in reverse order. A failed stop does not prevent the others. */
export async function stopAll(running: readonly Running[], log: Log): Promise<void> {
  for (const component of running.toReversed()) {
    await component.stop().catch((error: unknown) => log.error({ err: error }, 'stopping a component failed'));
  }
}

/** Returns the name of what is unavailable; undefined if nothing is. It never rejects, and returns within a second. */
export type Check = () => string | undefined | Promise<string | undefined>;

/** The response body. It contains only names, because the endpoint is public. */
type Readiness = { status: 'ready' } | { status: 'unready'; missing: readonly string[] };

export type Health = {
  readiness: () => Promise<Readiness>;
  /** Marks the process as started; it is ready if all checks pass. */
  started: () => void;
  /** Marks the process as unready; called before anything is stopped. */
  stopping: () => void;
  isStopping: () => boolean;
};

const unready = (missing: readonly string[]): Readiness => ({ status: 'unready', missing });

export function createHealth(checks: readonly Check[]): Health {
  let phase: 'starting' | 'running' | 'stopping' = 'starting';
  return {
    readiness: async () => {
      if (phase !== 'running') return unready([phase]);
      const missing = (await Promise.all(checks.map(async (check) => check()))).filter((name) => name !== undefined);
      // A stop may have begun during the checks.
      if (phase !== 'running') return unready([phase]);
      return missing.length === 0 ? { status: 'ready' } : unready(missing);
    },
    started: () => void (phase = 'running'),
    stopping: () => void (phase = 'stopping'),
    isStopping: () => phase === 'stopping',
  };
}
