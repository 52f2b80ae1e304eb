/** All mutations of the table, and the order in which a limited time is spent on them. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { changesSinceComplete, COMPLETE_AT, git, ROOT, rotated } from '../runner/changed.ts';
import { mutate, parseTable, placeOf, type Mutation } from './table.ts';

export const TABLE = 'test/mutations/mutations.txt';

/** `hash`: of the mutation, the file that it changes and the file of its test. `fault`: why it cannot be run. */
export type Entry = { name: string; hash: string; mutation: Mutation; fault?: string };

/** Returns the text of a file of the project; an empty one if there is no such file. */
export function contentOf(path: string): string {
  return existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), 'utf8') : '';
}

function entryOf(mutation: Mutation): Entry {
  const { name, target, testFile } = mutation;
  const source = contentOf(target);
  const hash = createHash('sha256');
  for (const part of [JSON.stringify(mutation), source, contentOf(testFile)])
    hash.update(`${part.length}\0`).update(part);
  const entry = { name, mutation, hash: hash.digest('hex').slice(0, 16) };
  try {
    mutate(source, mutation);
    return entry;
  } catch (error) {
    return { ...entry, fault: (error as Error).message };
  }
}

/** Throws a `MutationError` if the table cannot be parsed; an entry has a `fault` if its lines are not in the file. */
export function readCatalogue(): Entry[] {
  return parseTable(contentOf(TABLE)).map(entryOf);
}

type Lines = readonly { from: number; to: number }[];

/**
 * Returns the lines, counted from 0, that changed since the commit, for each file that is not the same. One diff for all of
 * them: one for each took 13 s after a week.
 */
export function changedLines(commit: string): ReadonlyMap<string, Lines> {
  // A renamed file is a new one.
  const diff = git('diff', '-U0', '--no-renames', '--no-prefix', commit, '--', 'src', 'packages');
  return new Map(
    diff.split(/^diff --git /m).map((part) => [
      /^\+\+\+ (.+)$/m.exec(part)?.[1] ?? '',
      [...part.matchAll(/^@@ -\S+ \+(\d+)(?:,(\d+))? @@/gm)].map(([, start, count = '1']) => ({
        from: Number(start) - 1,
        to: Number(start) + Number(count),
      })),
    ]),
  );
}

function tableAt(commit: string): Map<string, string> | undefined {
  try {
    return new Map(parseTable(git('show', `${commit}:${TABLE}`)).map((one) => [one.name, JSON.stringify(one)]));
  } catch {
    // The commit, or the table in it, does not exist: then the table says nothing about changes.
    return undefined;
  }
}

/**
 * Returns the mutations in the order in which to try them: first those that are new or changed in the table or whose lines
 * changed, then those whose file or test changed, then all others, from another place in the table each day.
 */
export function inOrderOfChange(entries: readonly Entry[], day: number) {
  const all = rotated(entries, day);
  const changes = changesSinceComplete();
  if (changes === undefined) return { changed: [], near: [], others: all };
  const { commit, files } = changes;
  const known = tableAt(commit);
  const linesOf = changedLines(commit);
  const isChanged = ({ name, mutation }: Entry): boolean => {
    if (known !== undefined && known.get(name) !== JSON.stringify(mutation)) return true;
    if (!files.has(mutation.target)) return false;
    const lines = linesOf.get(mutation.target) ?? [];
    const at = placeOf(contentOf(mutation.target).split('\n'), mutation);
    return lines.some(({ from, to }) => at < to && at + mutation.find.length > from);
  };
  const changed = all.filter((entry) => entry.fault !== undefined || isChanged(entry));
  const near = all.filter(
    (entry) => !changed.includes(entry) && (files.has(entry.mutation.target) || files.has(entry.mutation.testFile)),
  );
  const chosen = new Set([...changed, ...near]);
  return { changed, near, others: all.filter((entry) => !chosen.has(entry)) };
}

/** Records that all mutations were caught with the tree as it is now. */
export function recordCaught(): void {
  writeFileSync(COMPLETE_AT, git('rev-parse', 'HEAD'));
}
