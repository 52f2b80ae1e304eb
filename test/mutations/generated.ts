/** Runs generated mutations against the test files that may catch them, and prints those that survive. */
import { appendFileSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { changesSinceComplete, ROOT } from '../runner/changed.ts';
import { changedLines, contentOf, type Entry } from './catalogue.ts';
import { testChooser } from './choice.ts';
import { generate } from './mutators.ts';
import { SURVIVED } from './proof.ts';
import { baselineFault, mutationFault, runTasks, type Try } from './prove.ts';
import { describe, outdated, readSurvivors, SurvivorError } from './survivors.ts';
import { CODE, type Edit } from './table.ts';
import type { Task } from './task.ts';

const RESULTS = join(ROOT, 'node_modules/.cache/halcyon/generated.jsonl');
/** As many run all their tests before others start: those of the newest commits end first. */
const BATCH = 120;

/** `number`: of the line, from 1. `tests`: in the order in which they are tried. */
type Mutant = { target: string; edit: Edit; number: number; line: string; change: string; tests: readonly string[] };
/** `broken`: the code does not run at all, or does not end, also at a second try. `untested`: no test file is chosen or passes. */
type Verdict = 'caught' | 'broken' | 'survived' | 'untested';

/** Which mutants are made: of these files, or of the lines that changed. `isUnitOnly`: of modules that only units test. */
type Selection = { entries: readonly Entry[]; paths?: readonly string[] | undefined; isUnitOnly: boolean };

function wantedLines(paths: readonly string[] | undefined): Map<string, (number: number) => boolean> {
  if (paths !== undefined) return new Map(paths.map((path) => [path, () => true]));
  const changes = changesSinceComplete();
  if (changes === undefined) return new Map();
  const linesOf = changedLines(changes.commit);
  return new Map(
    [...changes.files]
      .filter((path) => CODE.test(path) && contentOf(path) !== '')
      .map((path) => {
        const ranges = linesOf.get(path) ?? [];
        return [path, (number: number) => ranges.some(({ from, to }) => number > from && number <= to)];
      }),
  );
}

/** Returns the mutants in the order of the newest commit of their files, without reviewed survivors. */
export async function selectMutants({ entries, paths, isUnitOnly }: Selection): Promise<Mutant[]> {
  const survivors = readSurvivors();
  const testsOf = await testChooser(entries.map(({ mutation }) => mutation));
  return [...wantedLines(paths)].flatMap(([target, isWanted]): Mutant[] => {
    const source = contentOf(target);
    const { units, journeys } = testsOf(target);
    if (isUnitOnly && (units.length === 0 || journeys.length > 0)) return [];
    const reviewed = survivors.filter((one) => one.target === target);
    const [gone] = outdated(reviewed, () => source);
    if (gone !== undefined)
      throw new SurvivorError(`survivors.txt: no mutation ${gone.change} of ${target}, ${gone.line}`);
    const numberAt = (offset: number): number => source.slice(0, offset).split('\n').length;
    return generate(source, (offset) => isWanted(numberAt(offset)))
      .map((edit) => {
        const { line, change } = describe(source, edit);
        return { target, edit, number: numberAt(edit.start), line, change, tests: [...units, ...journeys] };
      })
      .filter(({ line, change }) => !reviewed.some((one) => one.line === line && one.change === change));
  });
}

/** Returns a function that tries mutants, each with one of its test files after the other until one catches it. */
function createTrials(isOver: () => boolean, report: (mutant: Mutant, verdict: Verdict, fault?: string) => void) {
  /** By module and test file: whether the file passes with the unchanged module. */
  const passing = new Map<string, boolean>();
  const taskOf = ({ target }: Mutant, testFile: string, edit: Edit): Task => ({
    testFile,
    change: { target, ...edit },
  });
  const keyOf = ({ target }: Mutant, testFile: string): string => `${target} ${testFile}`;
  /** Runs each test file with the unchanged module, whose loops are counted, too. */
  const passUnmutated = async (pairs: readonly { mutant: Mutant; testFile: string }[]): Promise<void> => {
    const unknown = new Map<string, Task>();
    for (const { mutant, testFile } of pairs) {
      const key = keyOf(mutant, testFile);
      if (!passing.has(key)) unknown.set(key, taskOf(mutant, testFile, { start: 0, end: 0, text: '' }));
    }
    const keys = new Map([...unknown].map(([key, task]) => [task, key]));
    const onEnd = (task: Task, tries: readonly Try[]): void => {
      const fault = tries.at(-1)?.fault;
      passing.set(keys.get(task) ?? '', fault === undefined);
      if (fault !== undefined) console.log(`not used: ${task.testFile}: ${fault}`);
    };
    await runTasks([...keys.keys()], baselineFault, onEnd, isOver);
  };
  return async (mutants: readonly Mutant[]): Promise<void> => {
    const [survived, ended] = [new Set<Mutant>(), new Set<Mutant>()];
    const end = (mutant: Mutant, verdict: Verdict, fault?: string): void => {
      ended.add(mutant);
      report(mutant, verdict, fault);
    };
    for (let round = 0; ended.size < mutants.length; round += 1) {
      const pairs = mutants.flatMap((mutant) => {
        const testFile = mutant.tests[round];
        return testFile === undefined || ended.has(mutant) ? [] : [{ mutant, testFile }];
      });
      await passUnmutated(pairs);
      const usable = pairs.filter(({ mutant, testFile }) => passing.get(keyOf(mutant, testFile)) === true);
      const tasks = new Map(usable.map(({ mutant, testFile }) => [taskOf(mutant, testFile, mutant.edit), mutant]));
      const onEnd = (task: Task, tries: readonly Try[]): void => {
        const [mutant, fault] = [tasks.get(task), tries.at(-1)?.fault];
        if (mutant === undefined) throw new Error('a task of no mutant');
        if (fault !== SURVIVED) end(mutant, fault === undefined ? 'caught' : 'broken', fault);
        else if (round + 1 < mutant.tests.length) survived.add(mutant);
        else end(mutant, 'survived');
      };
      await runTasks([...tasks.keys()], mutationFault, onEnd, isOver);
      if (isOver()) return;
      for (const mutant of mutants)
        if (!ended.has(mutant) && round + 1 >= mutant.tests.length)
          end(mutant, survived.has(mutant) ? 'survived' : 'untested');
    }
  };
}

/** Tries the mutants until the time is over, prints the survivors, and returns their number. */
export async function tryGenerated(mutants: readonly Mutant[], isOver: () => boolean): Promise<number> {
  const counts: Record<Verdict, number> = { caught: 0, broken: 0, survived: 0, untested: 0 };
  mkdirSync(dirname(RESULTS), { recursive: true });
  rmSync(RESULTS, { force: true });
  const tryAll = createTrials(isOver, ({ target, number, line, change, tests }, verdict, fault) => {
    counts[verdict] += 1;
    appendFileSync(RESULTS, `${JSON.stringify({ target, number, line, change, verdict, fault })}\n`);
    if (verdict !== 'survived' && verdict !== 'untested') return;
    console.log(`${verdict} ${target}:${number}: ${change}\n  ${line}\n  tried: ${tests.join(' ') || 'no test'}`);
  });
  for (let at = 0; at < mutants.length && !isOver(); at += BATCH) await tryAll(mutants.slice(at, at + BATCH));
  const tried = Object.values(counts).reduce((sum, count) => sum + count, 0);
  console.table([{ generated: mutants.length, ...counts, 'not tried': mutants.length - tried }]);
  return counts.survived;
}
