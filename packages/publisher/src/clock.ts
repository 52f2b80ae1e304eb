/** Time and randomness of a publisher; tests pass their own. */
export type Clock = {
  /** A time that only increases. */
  nowMs: () => number;
  /** Resolves after the time, or when the signal is aborted. */
  wait: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Returns a number from 0 to below 1. */
  random: () => number;
};

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wait: (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener('abort', end);
    }),
  random: Math.random,
};
