/** The environment of all Node.js processes that tests start. */
import { join } from 'node:path';

const { NODE_OPTIONS, HALCYON_MUTATION_TASKS } = process.env;
/** In a mutation run, processes that a test starts are mutated too. */
const MUTATED = HALCYON_MUTATION_TASKS === undefined ? {} : { NODE_OPTIONS, HALCYON_MUTATION_TASKS };

/** Node's compile cache, as in `npm start`: a start takes 0.5 s of processor time instead of 0.85 s. */
export const COMPILED: NodeJS.ProcessEnv = {
  /** One process, as on a machine with one core; test/faults/processes.test.ts starts several. */
  PROCESSES: '1',
  /** No load balancer is there to notice; test/journeys/shutdown-delay.test.ts waits. */
  SHUTDOWN_DELAY_SECONDS: '0',
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../../node_modules/.cache/compiled'),
  ...MUTATED,
};

/** The program of this tree; with `HALCYON_TEST_PROGRAM=dist/server/main.js` tests start the one that `npm run build` makes. */
export const PROGRAM = process.env['HALCYON_TEST_PROGRAM'] ?? 'src/main.ts';
