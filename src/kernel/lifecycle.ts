import type { Log } from './log.ts';

/** The one contract of everything that runs: started by being made, ended by `stop`, which may be called twice. */
export type Running = { stop: () => Promise<void> };

/** Stops in the opposite order of starting. One that fails to stop must not keep the others running. */
export const stopAll = async (running: readonly Running[], log: Log): Promise<void> => {
  for (const part of running.toReversed()) {
    await part.stop().catch((error: unknown) => log.error({ err: error }, 'something did not stop as it should'));
  }
};
