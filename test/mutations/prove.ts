/** Runs the tests of tasks in their own processes, and repeats those that did not prove what they should. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { faultOfProof, faultOfWitness, type Observation } from './proof.ts';
import { TASK_TIMEOUT_MS, tasksEnvironment, type Task } from './task.ts';
import { unitFiles } from './units.ts';
import type { Observed } from './witness.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROCESSES = availableParallelism() + 1;
const UNITS_PER_PROCESS = 20;
/** A process without output for longer than a test may take is blocked. */
const SILENCE_MS = TASK_TIMEOUT_MS + 30_000;
const UNFINISHED = 'its process ended, or was blocked, before the test was over';

/** Without node:test's environment of this process, which would make the child take itself for a test file. */
function childEnvironment(tasks: readonly Task[]): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  return { ...env, NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/compiled'), ...tasksEnvironment(tasks) };
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // No process of the group is left.
  }
}

/** Returns the observations of each finished task; a task during which the process died or blocked is missing. */
export async function observe(tasks: readonly Task[]): Promise<ReadonlyMap<Task, readonly Observation[]>> {
  // Its own process group, which ends together with the programs that a test started.
  const child = spawn(process.execPath, ['test/mutations/witness.ts'], {
    cwd: ROOT,
    env: childEnvironment(tasks),
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const silence = setTimeout(() => killGroup(child.pid), SILENCE_MS);
  const observed = tasks.map((): Observation[] => []);
  const ended = new Map<Task, readonly Observation[]>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (!line.startsWith('{"task":')) return;
    silence.refresh();
    const { task: index, observation } = JSON.parse(line) as Observed;
    const [task, list] = [tasks[index], observed[index]];
    if (task === undefined || list === undefined) throw new Error(`There is no task ${index}`);
    if (observation !== undefined) list.push(observation);
    else if (ended.set(task, list).size === tasks.length) {
      // Open handles of a failed test would keep the process alive until it counts as blocked.
      killGroup(child.pid);
    }
  });
  await once(child, 'close');
  clearTimeout(silence);
  killGroup(child.pid);
  return ended;
}

/** Returns what is wrong with the observations of a task; undefined if they prove what they should. */
export type FaultOf = (task: Task, observed: readonly Observation[] | undefined) => string | undefined;

/** The test runs, alone, and passes. */
export const baselineFault: FaultOf = ({ testName }, observed) =>
  observed === undefined ? UNFINISHED : faultOfWitness(observed, testName);

/** The test, and it alone, fails because of the mutation. */
export const mutationFault: FaultOf = ({ testName }, observed) =>
  observed === undefined ? UNFINISHED : faultOfProof(observed, testName);

export type Try = { fault: string | undefined; seconds: number };

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items];
  const workers = Array.from({ length: PROCESSES }, async () => {
    for (let next = rest.shift(); next !== undefined; next = rest.shift()) await work(next);
  });
  await Promise.all(workers);
}

/** Units run together, because starting a process takes longer than most of them run; each other task runs alone. */
async function grouped(tasks: readonly Task[]): Promise<Task[][]> {
  const isUnit = await unitFiles();
  const units = tasks.filter(({ testFile }) => isUnit(testFile));
  const groups = Array.from({ length: Math.ceil(units.length / UNITS_PER_PROCESS) }, (_, group) =>
    units.slice(group * UNITS_PER_PROCESS, (group + 1) * UNITS_PER_PROCESS),
  );
  return [...groups, ...tasks.filter(({ testFile }) => !isUnit(testFile)).map((task) => [task])];
}

const TRIES_MAX = 2;

/** Runs the tasks; one with a fault is repeated once, alone. `onEnd` gets the one or two tries of each when it has ended. */
export async function runTasks(
  tasks: readonly Task[],
  faultOf: FaultOf,
  onEnd: (task: Task, tries: readonly Try[]) => void,
): Promise<void> {
  const tries = new Map<Task, Try[]>(tasks.map((task) => [task, []]));
  const runTogether = async (group: readonly Task[]): Promise<void> => {
    const startedMs = performance.now();
    const observed = await observe(group);
    const seconds = (performance.now() - startedMs) / 1_000 / group.length;
    for (const task of group) {
      // A task that ends the process takes the others along: this is no try of theirs.
      if (observed.has(task) || group.length === 1)
        tries.get(task)?.push({ fault: faultOf(task, observed.get(task)), seconds });
    }
  };
  const endOrReturn = (task: Task): Task[] => {
    const own = tries.get(task) ?? [];
    const isOver = own.length === TRIES_MAX || (own.length > 0 && own.at(-1)?.fault === undefined);
    if (!isOver) return [task];
    onEnd(task, own);
    return [];
  };
  const again: Task[] = [];
  await inParallel(await grouped(tasks), async (group) => {
    await runTogether(group);
    again.push(...group.flatMap(endOrReturn));
  });
  await inParallel(again, async (task) => {
    for (let left = [task]; left.length > 0; left = endOrReturn(task)) await runTogether(left);
  });
}
