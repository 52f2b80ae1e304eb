/**
 * Runs the test of each task of this process and prints its results, one line of JSON each. A program, because
 * node:test refuses to run tests inside of a test.
 */
import { run } from 'node:test';
import type { Observation } from './proof.ts';

/** `task`: index among the tasks of the process. Without an observation: the task has ended. */
export type Observed = { task: number; observation?: Observation };

function failureOf({ failureType, cause }: { failureType?: string; cause?: unknown }): Observation['failure'] {
  const type = failureType ?? 'unknown';
  if (!(cause instanceof Error)) return { type, message: String(cause) };
  const { name, message, code } = cause as NodeJS.ErrnoException;
  return { type, name, message: message.split('\n', 1).join(), ...(code !== undefined && { code }) };
}

function print(observed: Observed): void {
  console.log(JSON.stringify(observed));
}

let task = 0;
/** Each task is a test of tasks.ts, named after its file; the tests that it runs are nested in it. */
function report(observation: Observation): void {
  const { nesting, failure } = observation;
  if (nesting > 0) return print({ task, observation: { ...observation, nesting: nesting - 1 } });
  // The file itself failed, before or after its test.
  if (failure !== undefined && failure.type !== 'subtestsFailed') print({ task, observation });
  print({ task });
  task += 1;
}

// This program is its own process already.
const events = run({ files: ['test/mutations/tasks.ts'], isolation: 'none' });
for await (const { type, data } of events) {
  if (type === 'test:pass') {
    const outcome = data.skip === undefined && data.todo === undefined ? 'passed' : 'skipped';
    report({ name: data.name, nesting: data.nesting, outcome });
  } else if (type === 'test:fail') {
    const failure = failureOf(data.details.error as { failureType?: string; cause?: unknown });
    report({ name: data.name, nesting: data.nesting, outcome: 'failed', ...(failure && { failure }) });
  }
}
