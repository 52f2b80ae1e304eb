/**
 * Runs mutations and prints which were not caught: `npm run test:mutations`.
 *
 *     npm run test:mutations                          the whole table, except unchanged ones that were caught before
 *     npm run test:mutations -- --fresh               the whole table
 *     npm run test:mutations -- --shard 1/4           a quarter of it
 *     npm run test:mutations -- --minutes 3           changed ones, generated ones, then others, until the time is over
 *     npm run test:mutations -- code-used-twice       these
 *     npm run test:mutations -- --generated           generated mutations of the lines that changed; --minutes for a time
 *     npm run test:mutations -- --generated src/a.ts  generated mutations of this file
 *     npm run test:mutations -- --counterparts        those that are generated, too; removes each from the table if it is caught
 *
 * That a test passes without the mutation is known from the last `npm test` on the same tree. Any other test is run alone
 * first. A mutation that is not caught is tried once more.
 */
import { parseArgs } from 'node:util';
import { readPassed } from '../runner/passed.ts';
import { globalSetup, globalTeardown } from '../setup/global.ts';
import { inOrderOfChange, readCatalogue, recordCaught, type Entry } from './catalogue.ts';
import { counterparts, removeCounterparts } from './counterparts.ts';
import { selectMutants, tryGenerated } from './generated.ts';
import { baselineFault, mutationFault, runTasks, type Try } from './prove.ts';
import { openResults, printTable, type Result } from './results.ts';
import type { Task } from './task.ts';

const DAY_MS = 86_400_000;
/** With a time limit, as many of the unchanged tests run before their mutations. */
const BATCH = 15;

const { values: options, positionals: names } = parseArgs({
  options: {
    generated: { type: 'boolean', default: false },
    counterparts: { type: 'boolean', default: false },
    fresh: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    shard: { type: 'string' },
  },
  allowPositionals: true,
});
const minutes = options.minutes === undefined ? Infinity : Number(options.minutes);
if (!(minutes > 0)) throw new Error('--minutes takes a number above 0, such as 3');

/** Returns the mutations of the table that run before the generated ones, and those that run after them. */
async function choose(all: readonly Entry[]): Promise<{ first: readonly Entry[]; last: readonly Entry[] }> {
  if (options.counterparts) return { first: await counterparts(all), last: [] };
  if (options.minutes === undefined || names.length > 0 || options.shard !== undefined)
    return { first: chooseWithoutLimit(all), last: [] };
  const { changed, near, others } = inOrderOfChange(all, Math.floor(Date.now() / DAY_MS));
  console.log(`Order: ${changed.length} of changed lines, ${near.length} of changed files, ${others.length} others`);
  return { first: changed, last: [...near, ...others] };
}

function chooseWithoutLimit(all: readonly Entry[]): readonly Entry[] {
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
  return all;
}

const keyOf = ({ testFile, testName = '' }: Task): string => `${testFile} > ${testName}`;
const startedMs = performance.now();
const isOver = (): boolean => performance.now() - startedMs > minutes * 60_000;

/** Returns a function that tries mutations of the table until the time is over. */
function createTrials(add: (result: Result) => void) {
  const passed = readPassed();
  const baselines = new Map<string, readonly Try[]>();
  const report = (name: string, tries: readonly Try[], baseline: readonly Try[] = []): void => {
    const isCaught = tries.at(-1)?.fault === undefined;
    const faulty = [...baseline, ...tries].filter(({ fault }) => fault !== undefined);
    const verdict = !isCaught ? 'missed' : faulty.length > 0 ? 'flickers' : 'caught';
    add({ name, verdict, tries: verdict === 'flickers' ? [...baseline, ...tries] : tries });
  };
  const tryAll = async (entries: readonly Entry[]): Promise<void> => {
    const unknown = entries.flatMap(({ mutation: { testFile, testName } }) => {
      const key = keyOf({ testFile, testName });
      return passed.has(key) || baselines.has(key) ? [] : [[key, { testFile, testName }] as const];
    });
    const onBaseline = (task: Task, tries: readonly Try[]) => baselines.set(keyOf(task), tries);
    await runTasks([...new Map(unknown).values()], baselineFault, onBaseline, isOver);
    const tasks = new Map<Task, string>();
    for (const { name, mutation, fault } of entries) {
      const { target, find, replacement, testFile, testName } = mutation;
      const task = { testFile, testName, change: { target, find, replacement } };
      const baseline = baselines.get(keyOf(task));
      if (fault !== undefined) report(name, [{ fault, seconds: 0 }]);
      // The test failed twice without a mutation, so it cannot prove anything.
      else if (baseline?.at(-1)?.fault !== undefined) report(name, baseline);
      else tasks.set(task, name);
    }
    const onEnd = (task: Task, tries: readonly Try[]) =>
      report(tasks.get(task) ?? '', tries, baselines.get(keyOf(task)));
    await runTasks([...tasks.keys()], mutationFault, onEnd, isOver);
  };
  return async (entries: readonly Entry[]): Promise<void> => {
    const batch = options.minutes === undefined ? Math.max(entries.length, 1) : BATCH;
    for (let at = 0; at < entries.length && !isOver(); at += batch) await tryAll(entries.slice(at, at + batch));
  };
}

async function runTable(all: readonly Entry[]): Promise<void> {
  const isContinued = options.minutes === undefined || options.counterparts;
  const results = openResults(all, options.fresh || !isContinued);
  const { first, last } = await choose(all);
  const isWanted = ({ name }: Entry): boolean => names.length > 0 || !results.has(name);
  const [sooner, later] = [first.filter(isWanted), last.filter(isWanted)];
  console.log(`${sooner.length + later.length} of ${all.length} mutations to try`);
  let left = sooner.length + later.length;
  const tryUntilOver = createTrials((result) => {
    left -= 1;
    results.add(result);
  });
  await tryUntilOver(sooner);
  // Their survivors are printed, and fail nothing.
  if (last.length > 0) await tryGenerated(await selectMutants({ entries: all, isUnitOnly: true }), isOver);
  await tryUntilOver(later);

  const done = results.of(names.length > 0 ? names : all.map(({ name }) => name));
  printTable(done);
  if (left > 0) console.log(`Not tried, because ${minutes} min are over: ${left} mutations`);
  if (options.counterparts) await removeCounterparts(first.filter(({ name }) => results.has(name)));
  const missed = done.filter(({ verdict }) => verdict === 'missed');
  if (missed.length > 0) process.exitCode = 1;
  else if (done.length === all.length) recordCaught();
}

async function runGenerated(entries: readonly Entry[]): Promise<void> {
  const paths = names.length > 0 ? names : undefined;
  if ((await tryGenerated(await selectMutants({ entries, paths, isUnitOnly: false }), isOver)) > 0)
    process.exitCode = 1;
}

const all = readCatalogue();
await globalSetup();
try {
  await (options.generated ? runGenerated(all) : runTable(all));
} finally {
  await globalTeardown();
}
