/** Chooses the test files that may catch a mutation of a module: those that import it, and those that the table names for it. */
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { ROOT } from '../runner/changed.ts';
import type { Mutation } from './table.ts';
import { readImports, unitFiles } from './units.ts';

export const LISTED = 'test/mutations/tests.txt';
const FILES_MAX = 6;
/** Of the units that import a module beside the one of its own. */
const IMPORTERS_MAX = 3;
/** They take minutes. */
const LONG = /^test\/(?:browser|faults|languages|long)\//;

/** Returns the test files that the text names below the path of a module. */
export function parseListed(text: string): Map<string, string[]> {
  const listed = new Map<string, string[]>();
  let current: string[] = [];
  for (const line of text.split('\n').filter(Boolean)) {
    if (line.startsWith('  ')) current.push(line.trim());
    else listed.set(line, (current = []));
  }
  return listed;
}

export function readListed(): Map<string, string[]> {
  return parseListed(readFileSync(join(ROOT, LISTED), 'utf8'));
}

/** Returns how many folders two paths have in common. */
function nearness(one: string, other: string): number {
  const [folders, others] = [posix.dirname(one).split('/'), posix.dirname(other).split('/')];
  const differing = folders.findIndex((folder, depth) => folder !== others[depth]);
  return differing === -1 ? folders.length : differing;
}

type Choice = { units: string[]; journeys: string[] };

/**
 * Returns a function that chooses at most six test files of a module: the one beside it, those of tests.txt, units that import it,
 * then those that the entries of the table name most often; if there is none, those of the modules that import it. `journeys`
 * need a database or another process.
 */
export async function testChooser(
  table: readonly Mutation[],
  listed: ReadonlyMap<string, readonly string[]> = readListed(),
): Promise<(target: string) => Choice> {
  const [imports, isUnit] = [await readImports(), await unitFiles()];
  const importersOf = (target: string): string[] =>
    [...imports]
      .flatMap(([path, all]) => (all.includes(target) ? [path] : []))
      .toSorted((a, b) => nearness(b, target) - nearness(a, target));
  const namedFor = (target: string): string[] => {
    const entries = Object.groupBy(table, (one) => (one.target === target ? one.testFile : ''));
    const named = Object.entries(entries).toSorted(([, a = []], [, b = []]) => b.length - a.length);
    return named.flatMap(([testFile]) => (testFile === '' ? [] : [testFile]));
  };
  const testsOf = (target: string): string[] => {
    const units = importersOf(target).filter((path) => path.endsWith('.test.ts') && isUnit(path));
    const all = [
      target.replace(/\.[jt]s$/, '.test.ts'),
      ...(listed.get(target) ?? []),
      ...units.slice(0, IMPORTERS_MAX),
      ...namedFor(target),
    ];
    return [...new Set(all)].filter((path) => existsSync(join(ROOT, path)) && !LONG.test(path));
  };
  return (target) => {
    const reached = new Set([target]);
    let [level, chosen] = [[target], testsOf(target)];
    while (chosen.length === 0 && level.length > 0) {
      level = level.flatMap(importersOf).filter((path) => !path.endsWith('.test.ts') && !reached.has(path));
      for (const path of level) reached.add(path);
      const lists = [...new Set(level)].map(testsOf);
      // The first of each module, then the second of each, …
      chosen = Array.from({ length: FILES_MAX }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1))).flat();
    }
    const { units = [], journeys = [] } = Object.groupBy([...new Set(chosen)].slice(0, FILES_MAX), (path) =>
      isUnit(path) ? 'units' : 'journeys',
    );
    return { units, journeys };
  };
}
