/** node:test with the test that the task names, or all until one fails: hook.ts loads it for the files of a mutation run. */
import { test as allTests, type TestContext, type TestFn, type TestOptions } from 'node:test';
import { readTasks } from './task.ts';

export { after, afterEach, before, beforeEach, mock, suite } from 'node:test';

const task = readTasks()[Number(new URL(import.meta.url).searchParams.get('task') ?? 0)];

let hasFailed = false;

function untilOneFails(run: TestFn): TestFn {
  return async (context) => {
    if (hasFailed) return context.skip();
    try {
      await (run as (context: TestContext) => unknown)(context);
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  };
}

function only(name: string, ...rest: [TestOptions, TestFn] | [TestFn]): Promise<void> {
  if (task?.testName !== undefined && name !== task.testName) return Promise.resolve();
  const [options, run] = rest.length === 1 ? [{}, rest[0]] : rest;
  return allTests(name, options, task?.testName === undefined ? untilOneFails(run) : run);
}

export const test = Object.assign(only, allTests);
