/** Starts the server process of the embedded cluster again when it ends by itself, so that a crash does not end Halcyon. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '#core/log.ts';
import type { Postmaster } from './postmaster.ts';

/** A server that ends more often than this within a minute is not started again. */
const RESTARTS_MAX = 5;
const MINUTE_MS = 60_000;
/** The session processes of a killed server end by themselves, and it cannot start before. */
const ATTEMPTS_MS = 10_000;
const PAUSE_MS = 100;

type Deps = {
  start: () => Promise<Postmaster>;
  /** Called after each restart, when the server accepts connections. */
  onRestarted: () => Promise<void>;
  log: Log | undefined;
};

/** Repeats `start` until it succeeds; throws its last error after `ATTEMPTS_MS`. */
async function startAgain(start: Deps['start'], isStopping: () => boolean): Promise<Postmaster> {
  const deadline = performance.now() + ATTEMPTS_MS;
  for (;;) {
    try {
      return await start();
    } catch (error) {
      if (isStopping() || performance.now() > deadline) throw error;
      await delay(PAUSE_MS);
    }
  }
}

/**
 * Starts the server and keeps it running. `exited` resolves when it has been stopped, or has ended and could not be started again;
 * `stop` may be called at any time.
 */
export async function startSupervised({ start, onRestarted, log }: Deps): Promise<Postmaster> {
  let running = await start();
  let isStopping = false;

  const watch = async (): Promise<string> => {
    let endsMs: number[] = [];
    for (;;) {
      const reason = await running.exited;
      const nowMs = performance.now();
      endsMs = [...endsMs.filter((ms) => nowMs - ms < MINUTE_MS), nowMs];
      if (isStopping || endsMs.length > RESTARTS_MAX) return reason;
      log?.error({ reason }, 'the embedded PostgreSQL ended by itself; starting it again');
      try {
        running = await startAgain(start, () => isStopping);
        // A stop that came meanwhile has stopped the previous server only.
        if (isStopping) await running.stop();
        else await onRestarted();
      } catch (error) {
        return `${reason}, and could not be started again: ${(error as Error).message}`;
      }
    }
  };

  const exited = watch();
  return {
    get pid() {
      return running.pid;
    },
    exited,
    stop: async () => {
      isStopping = true;
      await running.stop();
      await exited;
    },
  };
}
