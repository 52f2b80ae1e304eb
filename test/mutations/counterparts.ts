/** Removes mutations from the table that are generated, too, and that the tests chosen for their file catch. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { ROOT } from '../runner/changed.ts';
import { contentOf, TABLE, type Entry } from './catalogue.ts';
import { LISTED, readListed, testChooser } from './choice.ts';
import { generate } from './mutators.ts';
import { CODE, HEAD, mutate } from './table.ts';
import { unitFiles } from './units.ts';

const normalized = (source: string): string => source.replaceAll(/\s+/g, ' ');

/** Returns the entries whose mutated source a generated mutation makes, too, apart from white space; those of units first. */
export async function counterparts(entries: readonly Entry[]): Promise<Entry[]> {
  const byTarget = Object.groupBy(
    entries.filter(({ fault }) => fault === undefined),
    ({ mutation }) => mutation.target,
  );
  const isUnit = await unitFiles();
  const found: Entry[] = [];
  for (const [target, some = []] of Object.entries(byTarget)) {
    const source = contentOf(target);
    const generated = new Set(generate(source).map((edit) => normalized(mutate(source, edit))));
    found.push(...some.filter(({ mutation }) => generated.has(normalized(mutate(source, mutation)))));
    // The parser frees its memory between two turns of the event loop; in one turn all modules take 9 GB.
    await setImmediate();
  }
  return found.toSorted((a, b) => Number(isUnit(b.mutation.testFile)) - Number(isUnit(a.mutation.testFile)));
}

/** Returns the table without the entries of these names, and without the paths that have no other entry. */
export function withoutEntries(table: string, names: ReadonlySet<string>): string {
  let isRemoved = false;
  const kept = table.split('\n').filter((line) => {
    const [, name] = HEAD.exec(line) ?? [];
    if (name !== undefined) isRemoved = names.has(name);
    else if (line === '' || CODE.test(line)) isRemoved = false;
    return !isRemoved;
  });
  return kept
    .filter((line, index) => !CODE.test(line) || HEAD.test(kept[index + 1] ?? ''))
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .replace(/^\n+/, '')
    .replace(/\n+$/, '\n');
}

/**
 * Removes caught entries from the table if the tests that are chosen for their file include theirs without the table. Tests that
 * nothing else names are added to tests.txt while the choice has fewer than six.
 */
export async function removeCounterparts(caught: readonly Entry[]): Promise<void> {
  const listed = readListed();
  const removed = new Set<string>();
  const needed = new Map<string, Set<string>>();
  for (const { name, mutation } of caught) {
    const { target, testFile } = mutation;
    const before = listed.get(target) ?? [];
    const all = new Set([...before, ...(needed.get(target) ?? []), testFile]);
    const isChosen = async (): Promise<boolean> => {
      const { units, journeys } = (await testChooser([], listed))(target);
      return all.isSubsetOf(new Set([...units, ...journeys]));
    };
    if (!(await isChosen())) listed.set(target, [...all]);
    if (await isChosen()) {
      removed.add(name);
      needed.set(target, all);
    } else listed.set(target, before);
  }
  writeFileSync(join(ROOT, TABLE), withoutEntries(contentOf(TABLE), removed));
  const named = [...listed].filter(([, tests]) => tests.length > 0).toSorted(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(
    join(ROOT, LISTED),
    named.map(([path, tests]) => [path, ...tests.map((one) => `  ${one}`), ''].join('\n')).join('\n'),
  );
  console.log(`Removed from the table: ${removed.size} of ${caught.length}`);
}
