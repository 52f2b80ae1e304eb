import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inOrderOfChange, readCatalogue } from './catalogue.ts';
import { baselineFault, mutationFault, runTasks, type FaultOf, type Try } from './prove.ts';
import type { Task } from './task.ts';

const TEST_FILE = 'src/delivery/attempt/request.test.ts';
const TEST_NAME = 'a webhook-id differs by event, by webhook and by the random part';
const BASELINE: Task = { testFile: TEST_FILE, testName: TEST_NAME };

/** A mutation that replaces a line of the unit by another one. */
const replacing = (line: string, instead: string, testName = TEST_NAME): Task => ({
  testFile: TEST_FILE,
  testName,
  change: { target: 'src/delivery/attempt/request.ts', find: [line], replacement: [instead] },
});

const COMMENT_LINE =
  '/** Returns `v1,<base64>` over `<id>.<timestamp>.<body>` (Standard Webhooks 1.0, "Signature scheme"). */';
const ID_LINE = 'return `msg_${eventId.toString(36)}_${nonce.toString(36)}_${webhookId.toString(36)}`;';
const noticed = () => replacing(ID_LINE, 'return `msg_${eventId.toString(36)}_${nonce.toString(36)}`;');
const unnoticed = () => replacing(COMMENT_LINE, '/** Changed. */');

async function triesOf(tasks: readonly Task[], faultOf: FaultOf = mutationFault): Promise<(readonly Try[])[]> {
  const tries = new Map<Task, readonly Try[]>();
  await runTasks(tasks, faultOf, (task, all) => tries.set(task, all));
  return tasks.map((task) => tries.get(task) ?? []);
}
const faultsOf = (tries: readonly Try[] | undefined) => tries?.map(({ fault }) => fault);

test('every mutation can be applied', () => {
  const entries = readCatalogue();
  const faults = entries.flatMap(({ name, fault }) => (fault === undefined ? [] : [`${name}: ${fault}`]));
  assert.deepEqual(faults, []);
  assert.ok(entries.length > 1_300);
});

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

test('a test counts as passing only if it runs alone and passes', async () => {
  const [passing, unknown] = await triesOf(
    [BASELINE, { testFile: TEST_FILE, testName: 'no such test' }],
    baselineFault,
  );
  assert.deepEqual(faultsOf(passing), [undefined]);
  assert.match(faultsOf(unknown)?.at(-1) ?? '', /alone and was empty/);
});

test('each mutation is tried once: changed lines first, then changed files, then the rest from another place each day', () => {
  const entries = readCatalogue();
  for (const day of [0, 1, 500]) {
    const { changed, near, others } = inOrderOfChange(entries, day);
    const order = [...changed, ...near, ...others];
    assert.equal(order.length, entries.length);
    assert.deepEqual(new Set(order), new Set(entries));
  }
});
