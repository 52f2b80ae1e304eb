/** The one contract of everything that runs: started by being made, ended by `stop`, which may be called twice. */
export type Running = { stop: () => Promise<void> };
