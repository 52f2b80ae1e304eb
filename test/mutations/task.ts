/** The tests that a process of witness.ts runs, with a mutation or without. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Change } from './table.ts';

/**
 * Without a `testName` all tests of the file run until one fails. Without a `change` they run on the unchanged code; a change by
 * characters counts the loops of its file, too.
 */
export type Task = { testFile: string; testName?: string; change?: Change };

/** The time limit of a test. */
export const TASK_TIMEOUT_MS = 60_000;

const NAME = 'HALCYON_MUTATION_TASKS';
const HOOK = pathToFileURL(join(import.meta.dirname, 'hook.ts')).href;

/** Returns the environment of a process that runs these tests, and of the programs that it starts. */
export function tasksEnvironment(tasks: readonly Task[]): Record<string, string> {
  return { [NAME]: JSON.stringify(tasks), NODE_OPTIONS: `--import=${HOOK}` };
}

/** Returns the tasks of this process; none outside of a mutation run. */
export function readTasks(): readonly Task[] {
  const text = process.env[NAME];
  return text === undefined ? [] : (JSON.parse(text) as Task[]);
}
