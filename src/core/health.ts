/** Whether a process lives, and whether it can be given work: what balancers and supervisors ask. */

/** Names what is missing at the moment; undefined where nothing is. It never rejects, and answers within a second. */
export type Check = () => string | undefined | Promise<string | undefined>;

/** The answer as a program reads it. Names of what is missing and nothing else: anybody may ask. */
type Readiness = { status: 'ready' } | { status: 'unready'; missing: readonly string[] };

export type Health = {
  readiness: () => Promise<Readiness>;
  /** From here on it is ready if its checks say so. */
  started: () => void;
  /** From here on it is not, whatever they say: called before anything is taken down. */
  stopping: () => void;
};

const unready = (missing: readonly string[]): Readiness => ({ status: 'unready', missing });

export const createHealth = (checks: readonly Check[]): Health => {
  let phase: 'starting' | 'running' | 'stopping' = 'starting';
  return {
    readiness: async () => {
      if (phase !== 'running') return unready([phase]);
      const missing = (await Promise.all(checks.map(async (check) => check()))).filter((name) => name !== undefined);
      // A stop may have begun while somebody waited for the database.
      if (phase !== 'running') return unready([phase]);
      return missing.length === 0 ? { status: 'ready' } : unready(missing);
    },
    started: () => void (phase = 'running'),
    stopping: () => void (phase = 'stopping'),
  };
};
