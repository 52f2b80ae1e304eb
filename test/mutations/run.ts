/**
 * Runs mutations and prints which were not caught: `npm run test:mutations`.
 *
 *     npm run test:mutations                          the whole set, except unchanged ones that were caught before
 *     npm run test:mutations -- --fresh               the whole set
 *     npm run test:mutations -- --shard 1/4           a quarter of it
 *     npm run test:mutations -- --changed             those changed since the recorded run, and a twelfth of the others
 *     npm run test:mutations -- code-used-twice       these
 *
 * That a test passes without the mutation is known from the last `npm test` on the same tree. Any other test,
 * and with `--changed` one whose file or mutation changed, is run alone first. A mutation that is not caught is tried once more.
 */
import { parseArgs } from 'node:util';
import { readPassed } from '../runner/passed.ts';
import { globalSetup, globalTeardown } from '../setup/global.ts';
import { changedSince, readCatalogue, recordCaught, type Entry } from './catalogue.ts';
import { baselineFault, mutationFault, runTasks, type Try } from './prove.ts';
import { openResults, printTable } from './results.ts';
import type { Task } from './task.ts';

const SLICES = 12;
const DAY_MS = 86_400_000;

const { values: options, positionals } = parseArgs({
  options: {
    changed: { type: 'boolean', default: false },
    fresh: { type: 'boolean', default: false },
    slice: { type: 'string' },
    shard: { type: 'string' },
  },
  allowPositionals: true,
});

const names = positionals.map((name) => (name.endsWith('.patch') ? name : `${name}.patch`));

/** Returns every `of`-th entry, starting with the one at `index`. */
function part(entries: readonly Entry[], index: number, of: number): Entry[] {
  return entries.filter((_, at) => at % of === index);
}

function choose(all: readonly Entry[], changed: ReadonlySet<Entry>): readonly Entry[] {
  if (names.length > 0) {
    const unknown = names.filter((name) => !all.some((entry) => entry.name === name));
    if (unknown.length > 0) throw new Error(`No such mutation: ${unknown.join(', ')}`);
    return all.filter(({ name }) => names.includes(name));
  }
  if (options.shard !== undefined) {
    const [index = 0, of = 0] = options.shard.split('/').map(Number);
    if (!(index >= 1 && index <= of)) throw new Error('--shard takes a number and a count, such as 1/4');
    return part(all, index - 1, of);
  }
  if (!options.changed) return all;
  // The part changes daily: two runs of a day agree, and twelve days try everything.
  const slice = Number(options.slice ?? Math.floor(Date.now() / DAY_MS) % SLICES);
  console.log(`${changed.size} mutations changed since the recorded run. With them: slice ${slice} of ${SLICES}.`);
  return [...new Set([...changed, ...part(all, slice, SLICES)])];
}

const keyOf = ({ testFile, testName }: Task): string => `${testFile} > ${testName}`;

/** Returns the tests that are not known to pass on this tree, each once. */
function withoutBaseline(entries: readonly Entry[], changed: ReadonlySet<Entry>): Task[] {
  const passed = readPassed();
  const tasks = entries.flatMap((entry) => {
    if (entry.mutation === undefined) return [];
    const { testFile, testName } = entry.mutation;
    const key = keyOf({ testFile, testName });
    return passed.has(key) && !(options.changed && changed.has(entry)) ? [] : [[key, { testFile, testName }] as const];
  });
  return [...new Map(tasks).values()];
}

const all = readCatalogue();
const changed = new Set(changedSince(all));
const results = openResults(all, options.fresh || options.changed);
const chosen = choose(all, changed).filter(({ name }) => names.length > 0 || !results.has(name));
console.log(`${chosen.length} of ${all.length} mutations to try`);

const baselines = new Map<string, readonly Try[]>();

/** The test failed twice without a mutation, so it cannot prove anything. */
const baselineFaultOf = (task: Task): string | undefined => baselines.get(keyOf(task))?.at(-1)?.fault;

function report(name: string, tries: readonly Try[], baseline: readonly Try[] = []): void {
  const isCaught = tries.at(-1)?.fault === undefined;
  const faulty = [...baseline, ...tries].filter(({ fault }) => fault !== undefined);
  const verdict = !isCaught ? 'missed' : faulty.length > 0 ? 'flickers' : 'caught';
  results.add({ name, verdict, tries: verdict === 'flickers' ? [...baseline, ...tries] : tries });
}

await globalSetup();
try {
  await runTasks(withoutBaseline(chosen, changed), baselineFault, (task, tries) => baselines.set(keyOf(task), tries));
  const tasks = new Map<Task, Entry>();
  for (const entry of chosen) {
    const { name, mutation, fault } = entry;
    if (mutation === undefined) {
      report(name, [{ fault, seconds: 0 }]);
      continue;
    }
    const task = { testFile: mutation.testFile, testName: mutation.testName, patch: name };
    const passesUnchanged = baselineFaultOf(task) === undefined;
    if (passesUnchanged) tasks.set(task, entry);
    else report(name, baselines.get(keyOf(task)) ?? []);
  }
  await runTasks([...tasks.keys()], mutationFault, (task, tries) =>
    report(tasks.get(task)?.name ?? '', tries, baselines.get(keyOf(task))),
  );
} finally {
  await globalTeardown();
}

const done = results.of(names.length > 0 ? names : all.map(({ name }) => name));
printTable(done);
const missed = done.filter(({ verdict }) => verdict === 'missed');
if (missed.length > 0) process.exitCode = 1;
else if (done.length === all.length) recordCaught(all);
