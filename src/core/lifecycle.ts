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
