/** Runs the tests of tasks in their own processes, and repeats those that did not prove what they should. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  faultOfFileProof,
  faultOfFileWitness,
  faultOfProof,
  faultOfWitness,
  SURVIVED,
  type Observation,
} from './proof.ts';
import { TASK_TIMEOUT_MS, tasksEnvironment, type Task } from './task.ts';
import { unitFiles } from './units.ts';
import type { Observed } from './witness.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROCESSES = availableParallelism() + 1;
const UNITS_PER_PROCESS = 40;
/** A process without output for longer than a test may take is blocked. */
const SILENCE_MS = TASK_TIMEOUT_MS + 30_000;
/** The files of generated mutations have many tests, each of which is a line of output. */
const FILE_SILENCE_MS = 30_000;
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
  const isNamed = tasks.some(({ testName }) => testName !== undefined);
  const silence = setTimeout(() => killGroup(child.pid), isNamed ? SILENCE_MS : FILE_SILENCE_MS);
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

/** The test runs, alone, and passes; or all tests of the file do. */
export const baselineFault: FaultOf = ({ testName }, observed) => {
  if (observed === undefined) return UNFINISHED;
  return testName === undefined ? faultOfFileWitness(observed) : faultOfWitness(observed, testName);
};

/** The test, and it alone, fails because of the mutation; or a test of the file does. */
export const mutationFault: FaultOf = ({ testFile, testName }, observed) => {
  if (observed === undefined) return UNFINISHED;
  return testName === undefined ? faultOfFileProof(observed, testFile) : faultOfProof(observed, testName);
};

export type Try = { fault: string | undefined; seconds: number };

async function inParallel<T>(
  items: readonly T[],
  isOver: () => boolean,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = [...items];
  const workers = Array.from({ length: PROCESSES }, async () => {
    for (let next = rest.shift(); next !== undefined && !isOver(); next = rest.shift()) await work(next);
  });
  await Promise.all(workers);
}

/** Units run together, because starting a process takes longer than most of them run; each other task runs alone. */
async function grouped(tasks: readonly Task[]): Promise<Task[][]> {
  const isUnit = await unitFiles();
  const units = tasks.filter(({ testFile }) => isUnit(testFile));
  const size = Math.min(UNITS_PER_PROCESS, Math.ceil(units.length / PROCESSES));
  const groups = Array.from({ length: Math.ceil(units.length / Math.max(size, 1)) }, (_, group) =>
    units.slice(group * size, (group + 1) * size),
  );
  return [...groups, ...tasks.filter(({ testFile }) => !isUnit(testFile)).map((task) => [task])];
}

const TRIES_MAX = 2;

/**
 * Runs the tasks; one with a fault, except `SURVIVED`, is repeated once, alone. `onEnd` gets the one or two tries of each
 * when it has ended. When `isOver`, no other task starts.
 */
export async function runTasks(
  tasks: readonly Task[],
  faultOf: FaultOf,
  onEnd: (task: Task, tries: readonly Try[]) => void,
  isOver: () => boolean = () => false,
): Promise<void> {
  const tries = new Map<Task, Try[]>(tasks.map((task) => [task, []]));
  const check = async (group: readonly Task[]): Promise<number> => {
    const startedMs = performance.now();
    const observed = await observe(group);
    const unended = group.findIndex((task) => !observed.has(task));
    // The reports of a task may be lost with the process that a later one has ended: only alone is it clear which one did.
    const isClear = unended === -1 || group.length === 1;
    const checked = isClear ? group : group.slice(0, unended);
    const seconds = (performance.now() - startedMs) / 1_000 / Math.max(checked.length, 1);
    for (const task of checked) tries.get(task)?.push({ fault: faultOf(task, observed.get(task)), seconds });
    return checked.length;
  };
  const runTogether = async (group: readonly Task[]): Promise<void> => {
    for (let rest = group; rest.length > 0;) {
      const ended = await check(rest);
      const next = rest.slice(ended, ended + 1);
      if (next.length > 0) await check(next);
      rest = rest.slice(ended + 1);
    }
  };
  const endOrReturn = (task: Task): Task[] => {
    const own = tries.get(task) ?? [];
    const fault = own.at(-1)?.fault;
    if (own.length < TRIES_MAX && fault !== undefined && fault !== SURVIVED) return [task];
    onEnd(task, own);
    return [];
  };
  const again: Task[] = [];
  await inParallel(await grouped(tasks), isOver, async (group) => {
    await runTogether(group);
    again.push(...group.flatMap(endOrReturn));
  });
  await inParallel(again, isOver, async (task) => {
    await runTogether([task]);
    endOrReturn(task);
  });
}
