/**
 * Runs mutations and prints which were not caught: `npm run test:mutations`.
 *
 *     npm run test:mutations                          the whole table, except unchanged ones that were caught before
 *     npm run test:mutations -- --fresh               the whole table
 *     npm run test:mutations -- --shard 1/4           a quarter of it
 *     npm run test:mutations -- --minutes 3           changed ones first, then others, until the time is over
 *     npm run test:mutations -- code-used-twice       these
 *
 * That a test passes without the mutation is known from the last `npm test` on the same tree. Any other test is run alone
 * first. A mutation that is not caught is tried once more.
 */
import { parseArgs } from 'node:util';
import { readPassed } from '../runner/passed.ts';
import { globalSetup, globalTeardown } from '../setup/global.ts';
import { inOrderOfChange, readCatalogue, recordCaught, type Entry } from './catalogue.ts';
import { baselineFault, mutationFault, runTasks, type Try } from './prove.ts';
import { openResults, printTable } from './results.ts';
import type { Task } from './task.ts';

const DAY_MS = 86_400_000;
/** With a time limit, the limit is checked after this many mutations: three groups of units. */
const BATCH = 60;

const { values: options, positionals: names } = parseArgs({
  options: {
    fresh: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    shard: { type: 'string' },
  },
  allowPositionals: true,
});
const minutes = options.minutes === undefined ? Infinity : Number(options.minutes);
if (!(minutes > 0)) throw new Error('--minutes takes a number above 0, such as 3');

function choose(all: readonly Entry[]): readonly Entry[] {
  if (names.length > 0) {
    const unknown = names.filter((name) => !all.some((entry) => entry.name === name));
    if (unknown.length > 0) throw new Error(`No such mutation: ${unknown.join(', ')}`);
    return all.filter(({ name }) => names.includes(name));
  }
  if (options.shard !== undefined) {
    const [index = 0, of = 0] = options.shard.split('/').map(Number);
    if (!(index >= 1 && index <= of)) throw new Error('--shard takes a number and a count, such as 1/4');
    return all.filter((_, at) => at % of === index - 1);
  }
  if (options.minutes === undefined) return all;
  const { changed, near, others } = inOrderOfChange(all, Math.floor(Date.now() / DAY_MS));
  console.log(`Order: ${changed.length} of changed lines, ${near.length} of changed files, ${others.length} others`);
  return [...changed, ...near, ...others];
}

const keyOf = ({ testFile, testName }: Task): string => `${testFile} > ${testName}`;

const all = readCatalogue();
const results = openResults(all, options.fresh || options.minutes !== undefined);
const chosen = choose(all).filter(({ name }) => names.length > 0 || !results.has(name));
console.log(`${chosen.length} of ${all.length} mutations to try`);

const passed = readPassed();
const baselines = new Map<string, readonly Try[]>();

/** The test failed twice without a mutation, so it cannot prove anything. */
const baselineFaultOf = (task: Task): string | undefined => baselines.get(keyOf(task))?.at(-1)?.fault;

function report(name: string, tries: readonly Try[], baseline: readonly Try[] = []): void {
  const isCaught = tries.at(-1)?.fault === undefined;
  const faulty = [...baseline, ...tries].filter(({ fault }) => fault !== undefined);
  const verdict = !isCaught ? 'missed' : faulty.length > 0 ? 'flickers' : 'caught';
  results.add({ name, verdict, tries: verdict === 'flickers' ? [...baseline, ...tries] : tries });
}

async function tryAll(entries: readonly Entry[]): Promise<void> {
  const unknown = entries.flatMap(({ mutation: { testFile, testName } }) => {
    const key = keyOf({ testFile, testName });
    return passed.has(key) || baselines.has(key) ? [] : [[key, { testFile, testName }] as const];
  });
  await runTasks([...new Map(unknown).values()], baselineFault, (task, tries) => baselines.set(keyOf(task), tries));
  const tasks = new Map<Task, string>();
  for (const { name, mutation, fault } of entries) {
    const { target, find, replacement, testFile, testName } = mutation;
    const task = { testFile, testName, change: { target, find, replacement } };
    if (fault !== undefined) report(name, [{ fault, seconds: 0 }]);
    else if (baselineFaultOf(task) === undefined) tasks.set(task, name);
    else report(name, baselines.get(keyOf(task)) ?? []);
  }
  await runTasks([...tasks.keys()], mutationFault, (task, tries) =>
    report(tasks.get(task) ?? '', tries, baselines.get(keyOf(task))),
  );
}

const startedMs = performance.now();
const isOver = (): boolean => performance.now() - startedMs > minutes * 60_000;
const batch = options.minutes === undefined ? chosen.length : BATCH;
let tried = 0;
await globalSetup();
try {
  for (; tried < chosen.length && !isOver(); tried += batch) await tryAll(chosen.slice(tried, tried + batch));
} finally {
  await globalTeardown();
}

const done = results.of(names.length > 0 ? names : all.map(({ name }) => name));
printTable(done);
if (tried < chosen.length)
  console.log(`Not tried, because ${minutes} min are over: ${chosen.length - tried} mutations`);
const missed = done.filter(({ verdict }) => verdict === 'missed');
if (missed.length > 0) process.exitCode = 1;
else if (done.length === all.length) recordCaught();
