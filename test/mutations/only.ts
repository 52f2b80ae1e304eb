/** node:test without any test but the one that the task names: hook.ts loads it for the files of a mutation run. */
import { test as allTests } from 'node:test';
import { readTasks } from './task.ts';

export { after, afterEach, before, beforeEach, mock, suite } from 'node:test';

const task = readTasks()[Number(new URL(import.meta.url).searchParams.get('task') ?? 0)];

function only(name: string, ...rest: [never]): Promise<void> {
  return name === task?.testName ? allTests(name, ...rest) : Promise.resolve();
}

export const test = Object.assign(only, allTests);
