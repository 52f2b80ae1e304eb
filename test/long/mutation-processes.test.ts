import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { baselineFault, mutationFault, runTasks, type FaultOf, type Try } from '../mutations/prove.ts';
import type { Task } from '../mutations/task.ts';

const TEST_FILE = 'src/core/rotation.test.ts';
const TARGET = 'src/core/keys.ts';
const TEST_NAME = 'from the end of the rotation the new key is the key';
const BASELINE: Task = { testFile: TEST_FILE, testName: TEST_NAME };

/** A mutation that replaces a line of the unit by another one. */
const replacing = (line: string, instead: string, testName = TEST_NAME): Task => ({
  testFile: TEST_FILE,
  testName,
  change: { target: TARGET, find: [line], replacement: [instead] },
});

const COMMENT_LINE = '/** Returns the key of a webhook that is valid at `now`, and the next one during a rotation. */';
const KEYS_LINE = '? { current: nextEncryptionKey, next: null }';
const noticed = () => replacing(KEYS_LINE, '? { current: null, next: null }');
const unnoticed = () => replacing(COMMENT_LINE, '/** Changed. */');

async function triesOf(tasks: readonly Task[], faultOf: FaultOf = mutationFault): Promise<(readonly Try[])[]> {
  const tries = new Map<Task, readonly Try[]>();
  await runTasks(tasks, faultOf, (task, all) => tries.set(task, all));
  return tasks.map((task) => tries.get(task) ?? []);
}
const faultsOf = (tries: readonly Try[] | undefined) => tries?.map(({ fault }) => fault);

test('a mutation is caught if its test fails by its own assertion; any other is tried twice and refused', async () => {
  const cases: readonly (readonly [Task, RegExp])[] = [
    [unnoticed(), /passes \(passed\): nothing guards/],
    [replacing(COMMENT_LINE, 'const = 1;'), /alone and was "src/],
    [replacing(COMMENT_LINE, 'throw new Error("stop");'), /alone and was "src/],
    [replacing('/** A line that is not there. */', ''), /alone and was "src/],
    [replacing(COMMENT_LINE, '', 'no such test'), /alone and was empty/],
    [replacing(COMMENT_LINE, 'process.exit();'), /its process ended/],
  ];
  const [caught, ...refused] = await triesOf([noticed(), ...cases.map(([task]) => task)]);
  assert.deepEqual(faultsOf(caught), [undefined]);
  for (const [index, [, expected]] of cases.entries()) {
    assert.equal(refused[index]?.length, 2);
    for (const fault of faultsOf(refused[index]) ?? []) assert.match(fault ?? '', expected);
  }
});

test('tests that share a process get the code of their own task', async () => {
  const tasks = [noticed(), { ...BASELINE }, noticed(), { ...BASELINE }];
  const faultOf: FaultOf = (task, observed) =>
    (task.change === undefined ? baselineFault : mutationFault)(task, observed);
  const tries = await triesOf(tasks, faultOf);
  assert.deepEqual(tries.map(faultsOf), [[undefined], [undefined], [undefined], [undefined]]);
});

/** A generated mutation, which all tests of the file may catch. */
const editing = (from: string, text: string): Task => {
  const start = readFileSync(TARGET, 'utf8').indexOf(from);
  return { testFile: TEST_FILE, change: { target: TARGET, start, end: start + from.length, text } };
};

test('any test of a file catches a generated mutation; an endless loop ends by an error', async () => {
  const cases: readonly (readonly [Task, RegExp | undefined])[] = [
    [editing('<= now', '< now'), undefined],
    [editing('', ''), /all tests pass/],
    [editing('return rot', 'for (;;) Math.min(); return rot'), /EndlessLoopError/],
    [editing('return rot', 'process.exit(); return rot'), /its process ended/],
    [editing('export function keysAt', 'function keysAt'), /SyntaxError/],
  ];
  const all = await triesOf(cases.map(([task]) => task));
  for (const [index, [, expected]] of cases.entries()) {
    const fault = all[index]?.at(-1)?.fault;
    if (expected === undefined) assert.equal(fault, undefined);
    else assert.match(fault ?? '', expected);
  }
  assert.deepEqual(
    all.map(({ length }) => length),
    [1, 1, 2, 2, 2],
  );
});

test('a test counts as passing only if it runs alone and passes', async () => {
  const [passing, unknown] = await triesOf(
    [BASELINE, { testFile: TEST_FILE, testName: 'no such test' }],
    baselineFault,
  );
  assert.deepEqual(faultsOf(passing), [undefined]);
  assert.match(faultsOf(unknown)?.at(-1) ?? '', /alone and was empty/);
});
