import type { Log } from './log.ts';

/** The one contract of everything that runs: started by being made, ended by `stop`, which may be called twice. */
export type Running = { stop: () => Promise<void> };

/** The same part, whose stop is waited for no longer than this: what it leaves undone ends with the process. */
export const within = (limitMs: number, part: Running): Running => ({
  stop: async () => {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, limitMs);
    await Promise.race([part.stop(), late]).finally(() => clearTimeout(timer));
  },
});

/** Stops in the opposite order of starting. One that fails to stop must not keep the others running. */
export const stopAll = async (running: readonly Running[], log: Log): Promise<void> => {
  for (const part of running.toReversed()) {
    await part.stop().catch((error: unknown) => log.error({ err: error }, 'something did not stop as it should'));
  }
};
