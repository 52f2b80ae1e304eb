/**
 * Runs the tests of one file whose name matches and prints what became of them, a line of JSON each. A program, because
 * node:test refuses to run tests inside of a test.
 *
 *     node test/sabotage/observe.ts <file> <name>
 */
import { run } from 'node:test';
import type { Observation } from './judge.ts';

const RUN_MS = 60_000;

const failureOf = ({ failureType, cause }: { failureType?: string; cause?: unknown }): Observation['failure'] => {
  const type = failureType ?? 'unknown';
  if (!(cause instanceof Error)) return { type, message: String(cause) };
  const { name, message, code } = cause as NodeJS.ErrnoException;
  return { type, name, message: message.split('\n', 1).join(), ...(code !== undefined && { code }) };
};

const print = (observation: Observation): void => console.log(JSON.stringify(observation));

const [file = '', name = ''] = process.argv.slice(2);
const events = run({
  files: [file],
  testNamePatterns: [new RegExp(`^${RegExp.escape(name)}$`)],
  timeout: RUN_MS,
  // The program is a process of its own already.
  isolation: 'none',
});
for await (const { type, data } of events) {
  if (type === 'test:pass') {
    const outcome = data.skip === undefined && data.todo === undefined ? 'passed' : 'skipped';
    print({ name: data.name, nesting: data.nesting, outcome });
  } else if (type === 'test:fail') {
    const failure = failureOf(data.details.error as { failureType?: string; cause?: unknown });
    print({ name: data.name, nesting: data.nesting, outcome: 'failed', ...(failure && { failure }) });
  }
}
